"""Saving, loading and copying of drop-in buffers: the memory's snapshot, and a note beside it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar, cast

from relive.atomic_files import sync_folder
from relive.errors import OptionError, ReliveError, SnapshotError
from relive.memory import Memory
from relive.memory.checks import path
from relive.memory.copying import packed, unpacked
from relive.memory.snapshot.manifest import digest
from relive.memory.storage.forks import tell_of_forks

__all__ = ["Saveable", "exclusive"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_NOTE = "buffer.json"
_ROWS = re.compile(r"rows-[0-9a-f]{16}")
_WAITING = re.compile(rf"{re.escape(_NOTE)}-{_ROWS.pattern}")


def exclusive(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """A method that waits while its buffer is being saved, and makes a save wait."""

    @wraps(method)
    def alone(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with cast("Saveable", args[0])._lock:
            return method(*args, **kwargs)

    return alone


class Saveable(ABC):
    """A buffer that can be saved and loaded, to a folder or as a dict of arrays, and copied."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]
    _lock: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember how the buffer was made, for copies of it."""
        made = super().__new__(cls)
        made._made_with = (args, kwargs)
        made._lock = threading.RLock()
        tell_of_forks(made)
        return made

    def forked(self) -> None:
        """Whoever held the lock is not in this process."""
        self._lock = threading.RLock()

    @abstractmethod
    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        """The memory, and what JSON can hold of the rest."""

    @abstractmethod
    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        """Take over what ``_parts`` gave, of a buffer that was made alike."""

    def _mold(self, notes: dict[str, Any]) -> Memory:  # noqa: ARG002
        """A memory made as the saved one must have been."""
        return self._parts()[0]

    def _facts(self) -> dict[str, Any]:
        """What else must be the same of a buffer that is loaded, in JSON."""
        return {}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save everything to a folder, in place of what was saved there before, which stays until all is written.

        Another thread that stores meanwhile waits until the rows are saved.
        """
        folder = path("folder", folder)
        folder.mkdir(parents=True, exist_ok=True)
        rows = f"rows-{secrets.token_hex(8)}"
        with self._lock:
            memory, notes = self._parts()
            memory.save(folder / rows)
        inside = json.dumps({"kind": type(self).__name__, "rows": rows, "facts": self._facts(), "notes": notes})
        waiting = folder / f"{_NOTE}-{rows}"
        with open(waiting, "w") as file:
            json.dump({"buffer": inside, "xxh64": digest(inside.encode())}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(waiting, folder / _NOTE)
        sync_folder(folder)
        for old in folder.iterdir():
            if _ROWS.fullmatch(old.name) and old.name != rows:
                shutil.rmtree(old, ignore_errors=True)
            elif _WAITING.fullmatch(old.name):
                old.unlink(missing_ok=True)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Become what was saved to a folder by a buffer that was made with the same arguments.

        Raises:
            SnapshotError: If what is there cannot be loaded. Nothing is changed then.
            OptionError: If it is of another buffer. Nothing is changed then.
        """
        folder = path("folder", folder)
        note = _read_note(folder / _NOTE)
        if note["kind"] != type(self).__name__:
            raise OptionError("folder", f"hold a {type(self).__name__}", note["kind"], "Make a buffer of that kind.")
        remedy = "Make the buffer with the arguments of the saved one."
        for name, fact in self._facts().items():
            if note["facts"].get(name) != fact:
                raise OptionError("folder", f"hold a buffer whose {name} is {fact}", note["facts"].get(name), remedy)
        loaded, mine = Memory.load(folder / note["rows"]), self._molded(folder, note)
        for name in ("schema", "capacity", "lanes", "sampler", "window"):
            theirs, ours = getattr(loaded, name), getattr(mine, name)
            if theirs != ours:
                raise OptionError("folder", f"hold a buffer whose {name} is {ours}", theirs, remedy)
        with self._lock, _believed(folder):
            self._adopt(loaded, note["notes"])

    def _molded(self, folder: Path, note: dict[str, Any]) -> Memory:
        with _believed(folder):
            return self._mold(note["notes"])

    def state_dict(self) -> dict[str, Any]:
        """Everything as a dict of byte arrays by file name; ``torch.save`` and pickle take it."""
        return packed(self.save)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``state_dict`` gave, of a buffer that was made with the same arguments."""
        with unpacked(state) as folder:
            self.load(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles: made alike, then loaded."""
        return _copied, (type(self), *self._made_with, self.state_dict())


def _copied(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any], state: dict[str, Any]) -> Any:
    buffer = kind(*args, **kwargs)
    buffer.load_state_dict(state)
    return buffer


def _read_note(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_bytes())
        inside = read["buffer"]
        right = read["xxh64"] == digest(inside.encode())
        note: dict[str, Any] = json.loads(inside)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        remedy = "Choose a folder that save wrote."
        raise SnapshotError(str(path), "be a buffer's note in JSON", error, remedy) from None
    if not right:
        raise SnapshotError(str(path), "be what was saved", "another checksum", "Use an older copy of it.")
    kinds = {"kind": str, "rows": str, "facts": dict, "notes": dict}
    whole = isinstance(note, dict) and all(isinstance(note.get(name), kind) for name, kind in kinds.items())
    if not whole or not _ROWS.fullmatch(note["rows"]):
        raise SnapshotError(str(path), f"have {', '.join(kinds)}", inside[:60], "Use an older copy of it.")
    return note


@contextmanager
def _believed(folder: Path) -> Iterator[None]:
    """Turns what goes wrong with notes that are none of a buffer's into the error of a damaged file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        if isinstance(error, ReliveError):
            raise
        rule = "hold the notes of a buffer"
        raise SnapshotError(str(folder / _NOTE), rule, repr(error)[:80], "Use an older copy of it.") from None
