"""Saving and loading of drop-in buffers: the memory's snapshot, and a note beside it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recollect.errors import OptionError, SnapshotError
from recollect.memory import Memory

__all__ = ["Lasting"]

_NOTE = "buffer.json"


class Lasting(ABC):
    """A buffer that can be saved and loaded, to a folder or as a dict of arrays."""

    @abstractmethod
    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        """The memory, and what JSON can hold of the rest."""

    @abstractmethod
    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        """Take over what ``_parts`` gave, of a buffer that was made alike."""

    def _mold(self, notes: dict[str, Any]) -> Memory:  # noqa: ARG002
        """A memory made as the saved one must have been."""
        return self._parts()[0]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save everything to a folder, in place of what was saved there before, which stays until all is written."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        memory, notes = self._parts()
        rows = f"rows-{secrets.token_hex(8)}"
        memory.save(folder / rows)
        text = json.dumps({"kind": type(self).__name__, "rows": rows, "notes": notes}).encode()
        waiting = folder / f"{_NOTE}-{rows}"
        with open(waiting, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(waiting, folder / _NOTE)
        _sync_folder(folder)
        for old in folder.glob("rows-*"):
            if old.name != rows:
                shutil.rmtree(old, ignore_errors=True)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Become what was saved to a folder by a buffer that was made with the same arguments.

        Raises:
            SnapshotError: If what is there cannot be loaded. Nothing is changed then.
            OptionError: If it is of another buffer. Nothing is changed then.
        """
        folder = Path(folder)
        try:
            note = json.loads((folder / _NOTE).read_bytes())
            kind, rows, notes = note["kind"], note["rows"], note["notes"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            rule = "be a buffer's note in JSON"
            raise SnapshotError(str(folder / _NOTE), rule, error, "Choose a folder that save wrote.") from None
        if kind != type(self).__name__:
            raise OptionError("folder", f"hold a {type(self).__name__}", kind, "Make a buffer of that kind.")
        loaded, mine = Memory.load(folder / rows), self._mold(notes)
        for name in ("schema", "capacity", "lanes", "sampler", "window"):
            if getattr(loaded, name) != getattr(mine, name):
                raise OptionError(
                    "folder",
                    f"hold a buffer whose {name} is {getattr(mine, name)}",
                    getattr(loaded, name),
                    "Make the buffer with the arguments of the saved one.",
                )
        self._adopt(loaded, notes)

    def state_dict(self) -> dict[str, Any]:
        """Everything as a dict of byte arrays by file name; ``torch.save`` and pickle take it."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            return {
                path.relative_to(folder).as_posix(): np.frombuffer(path.read_bytes(), np.uint8).copy()
                for path in sorted(Path(folder).rglob("*"))
                if path.is_file()
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``state_dict`` gave, of a buffer that was made with the same arguments."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in state.items():
                path = Path(folder, name).resolve()
                if not path.is_relative_to(Path(folder).resolve()):
                    raise OptionError("state", "name files below one folder", repr(name))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(np.asarray(content, np.uint8).tobytes())
            self.load(folder)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
