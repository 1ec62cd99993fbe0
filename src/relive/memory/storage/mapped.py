"""Rows in a memory-mapped file."""

from __future__ import annotations

import json
import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from relive.atomic_files import sync_folder
from relive.errors import OptionError, StorageError
from relive.memory.storage.forks import tell_of_forks
from relive.memory.storage.ground import Closed, Layout, was_forked
from relive.memory.storage.header import NEW, SESSION_AT, layout_in, read_header, rows_at, write_header

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Mapped"]

_SESSION_BYTES = 512


@final
class _MappedGround:
    """An open file of rows. What is on disk after a crash: docs/format.md, "Files of rows"."""

    guarded = True

    def __init__(self, path: Path, layout: Layout | None) -> None:
        self._file = _open_locked(path, new=layout is not None)
        try:
            if layout is None:
                self.layout = layout_in(self._file, str(path))
            else:
                if os.fstat(self._file).st_size and read_header(self._file, str(path)) is not None:
                    raise StorageError(
                        str(path),
                        "be a new file",
                        "one that holds rows already",
                        "Memory.open goes on with them; or choose another path.",
                    )
                self.layout = layout
                _create(self._file, path, layout)
            self.store = self.layout.map_store(self._file, path, rows_at(self.layout), others=False)
            if layout is None:
                self._revive(path)
            self._mark(clean=False)
        except BaseException:
            os.close(self._file)
            raise
        self._finish = weakref.finalize(self, _finish, self.store, self._file)
        self.others = False
        self._forked = False
        self._flushing = threading.Lock()
        tell_of_forks(self)

    def write_to(self, lanes: Any) -> None:  # noqa: ARG002
        """The file is this process's."""
        if self._forked:
            raise was_forked()

    def check_attached(self) -> None:
        """Refuse to change rows for a child of the process that opened them."""
        if self._forked:
            raise was_forked()

    def leave_lanes(self) -> None:
        """There are no others."""

    def forked(self) -> None:
        """Forget the parent's lock in a child, so that it ends with the parent."""
        if self._finish.detach():
            os.close(self._file)
            self._forked = self.others = True

    def flush(self) -> None:
        """Put all rows on disk; returns once they are there."""
        self.check_attached()
        with self._flushing:
            self.store.flush()

    def close(self) -> bool:
        """Put all rows on disk and close the file."""
        self._finish()
        self.store = Closed()  # type: ignore[assignment]
        return True

    def _revive(self, path: Path) -> None:
        session = os.pread(self._file, _SESSION_BYTES, SESSION_AT)
        try:
            known = json.loads(session.rstrip(b"\0"))
            clean, boot = bool(known["clean"]), str(known["boot"])
        except (ValueError, KeyError, TypeError, RecursionError):
            clean, boot = False, ""
        # After a crash of the process the system still has every byte. After a crash of the system only what was
        # flushed is certain, and not whether the newest of those rows is what it was then.
        power_cut = not clean and (not boot or boot != _boot())
        if power_cut and not self.store.recall():
            raise StorageError(str(path), "have a record of what was flushed", "none", "Restore it from a copy.")
        for lane in range(self.layout.lanes):
            if not self.store.plausible(lane):
                raise StorageError(str(path), "hold whole lanes", f"a damaged lane {lane}", "Restore it from a copy.")
            self.store.recover(lane)
            if power_cut:
                self.store.cut(lane)

    def _mark(self, *, clean: bool) -> None:
        _mark(self._file, clean=clean)


def _mark(file: int, *, clean: bool) -> None:
    text = json.dumps({"clean": clean, "boot": _boot()}).encode()
    os.pwrite(file, text.ljust(_SESSION_BYTES, b"\0"), SESSION_AT)
    os.fsync(file)


def _finish(store: Any, file: int) -> None:
    try:
        store.flush()
        _mark(file, clean=True)
    finally:
        os.close(file)


def _open_locked(path: Path, *, new: bool) -> int:
    if fcntl is None:
        raise OptionError("storage", "be Ram on this system", "Mapped", "Files of rows need a POSIX system.")
    if new:
        for folder in reversed([path.parent, *path.parent.parents]):
            if not folder.exists():
                folder.mkdir(exist_ok=True)
                sync_folder(folder.parent)
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if new else 0), 0o644)
    except FileNotFoundError as error:
        raise StorageError(str(path), "exist", error.strerror or str(error), NEW) from None
    except OSError as error:
        raise StorageError(str(path), "be a file that can be written", error.strerror or str(error)) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise StorageError(
            str(path),
            "be open once",
            "a file that is open already",
            "Close it there, or use Shared for many processes.",
        ) from None
    return file


def _create(file: int, path: Path, layout: Layout) -> None:
    total = rows_at(layout) + layout.nbytes
    try:
        reserve(file, total)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(str(path), f"have room for {total / 2**30:.2f} GiB", reason, "Use less capacity.") from None
    write_header(file, layout)
    sync_folder(path.parent)


def reserve(file: int, size: int) -> None:
    """Truncate a file and allocate its size, so that a full disk is an error now, not a signal later."""
    os.ftruncate(file, 0)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.ftruncate(file, size)
    except OSError:
        os.ftruncate(file, 0)
        raise


def _boot() -> str:
    """The boot id of the operating system; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@final
@dataclass(frozen=True, slots=True)
class Mapped:
    """Rows in a memory-mapped file: larger than RAM, and persistent.

    A new memory creates the file, ``Memory.open`` opens an existing one. After a crash of the program every appended
    step is there, and open episodes stay open; call ``cut`` if their environments were reset. After a crash of the
    machine every row up to the last ``flush`` is there, except those overwritten since and up to a sixteenth of a lane
    of the oldest; open episodes are then cut. Priorities are not in the file: ``Memory.save`` stores them.
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)) or not os.fspath(self.path):
            raise OptionError("path", "name a file", repr(self.path))

    def open(self, layout: Layout | None) -> _MappedGround:
        """A new file for rows of this layout; None: the rows in the file that is there."""
        return _MappedGround(Path(self.path), layout)

    def layout(self) -> Layout:
        """The layout of the rows in the file."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StorageError(str(self.path), "exist", error.strerror or error, NEW) from None
        try:
            return layout_in(file, str(self.path))
        finally:
            os.close(file)
