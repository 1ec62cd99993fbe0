"""Rows in a segment of memory that several processes share.

The segment is a file in the system's memory-backed folder. Its users, and the writer of each lane, hold locks on bytes
of that file: the system releases them when a process ends, however it ends.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from relive import _core
from relive.errors import OptionError, StorageError
from relive.memory.checks import some_lanes
from relive.memory.storage.forks import tell_of_forks
from relive.memory.storage.ground import Closed, Layout, was_closed, was_forked
from relive.memory.storage.header import NEW, is_finished, layout_in, read_header, rows_at, write_header
from relive.memory.storage.mapped import reserve

if sys.platform == "linux":
    import fcntl

__all__ = ["Shared"]

_FOLDER = Path("/dev/shm")
_PREFIX = "relive-"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")

_OTHERS_FILE = "Choose another name."

# Bytes that are locked, past the end of any file.
_USERS = 1 << 62
_SETUP = _USERS + 1
_LANES = _USERS + 16


@final
class _Locks:
    """Locks on bytes of an open file, held until it is closed (Linux's open file description locks)."""

    def __init__(self, file: int) -> None:
        self._file = file

    def share(self, byte: int) -> None:
        self._lock(byte, fcntl.F_RDLCK, wait=True)

    def take(self, byte: int, *, wait: bool = False) -> bool:
        return self._lock(byte, fcntl.F_WRLCK, wait=wait)

    def drop(self, byte: int) -> None:
        self._lock(byte, fcntl.F_UNLCK, wait=False)

    def _lock(self, byte: int, kind: int, *, wait: bool) -> bool:
        what = struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, what)
        except (BlockingIOError, PermissionError):
            return False
        return True


@final
class SharedGround:
    """An open segment."""

    others = True
    guarded = True

    def __init__(self, name: str, layout: Layout | None) -> None:
        self.name = name
        self._file, self._locks = _attach(name, create=layout is not None)
        self._mutex = threading.Lock()
        self._writes: set[int] = set()
        self._all = False
        self._forked = False
        try:
            self.layout = _settle(name, self._file, self._locks, layout)
            self.store: _core.Store = self.layout.map_store(self._file, _path(name), rows_at(self.layout), others=True)
        except BaseException:
            if is_finished(self._file):
                os.close(self._file)  # somebody's rows
            else:
                _let_go(name, self._file, self._locks)
            raise
        self._finish = weakref.finalize(self, _let_go, name, self._file, self._locks)
        tell_of_forks(self)

    def write_to(self, lanes: Any) -> None:
        """Become the one writer of lanes, from the first time on that they are written to."""
        if self._all:
            return
        count = self.layout.lanes
        chosen = range(count) if lanes is None else np.atleast_1d(some_lanes(lanes, count)).tolist()
        with self._mutex:
            taken = []
            try:
                for lane in chosen:
                    if lane not in self._writes:
                        self._take(lane)
                        taken.append(lane)
            except StorageError:
                self._drop(taken)
                raise
            self._all = len(self._writes) == self.layout.lanes

    def leave_lanes(self) -> None:
        """Let others write to the lanes that this process wrote to."""
        with self._mutex:
            self._drop(list(self._writes))

    def _drop(self, lanes: list[int]) -> None:
        for lane in lanes:
            self._locks.drop(_LANES + lane)
            self._writes.discard(lane)
        self._all = False

    def check_attached(self) -> None:
        """Refuse to write for a process that has no locks."""
        if self._forked:
            raise was_forked()
        if not self._finish.alive:
            raise was_closed()

    def _take(self, lane: int) -> None:
        self.check_attached()
        if not self._locks.take(_LANES + lane):
            raise StorageError(
                f"lane {lane}",
                "have one writer",
                f"another process or object that writes to it in {self.name!r}",
                "Take another lane, or end that writer first.",
            )
        try:
            self.store.recover(lane)
            self.store.cut(lane)
        except BaseException:
            self._locks.drop(_LANES + lane)
            raise
        self._writes.add(lane)

    def flush(self) -> None:
        """There is no disk."""

    def close(self) -> bool:
        """Stop using the segment; the last to do so removes it."""
        self._finish()
        self.store = Closed()  # type: ignore[assignment]
        return True

    def forked(self) -> None:
        """Forget the parent's locks in a child, so that they end with the parent."""
        if self._finish.detach():
            os.close(self._file)
            self._mutex = threading.Lock()
            self._writes.clear()
            self._all = False
            self._forked = True


def _path(name: str) -> Path:
    return _FOLDER / (_PREFIX + name)


def _title(name: str) -> str:
    return f"shared memory {name!r}"


def _open(name: str, flags: int) -> int:
    """The segment's file, if it is a file of this user's that nobody else can write to.

    Raises:
        FileNotFoundError: If there is none.
    """
    try:
        file = os.open(_path(name), flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "a link" if error.errno == errno.ELOOP else error.strerror or error
        raise StorageError(_title(name), "be open to this user", reason, _OTHERS_FILE) from None
    found = os.fstat(file)
    mode = stat.S_IMODE(found.st_mode)
    problem = ""
    if not stat.S_ISREG(found.st_mode):
        problem = "something that is no file"
    elif found.st_uid != os.geteuid():
        problem = f"one of user {found.st_uid}"
    elif mode & 0o077:
        problem = f"one that others may use (mode {mode:o})"
    if problem:
        os.close(file)
        raise StorageError(_title(name), "belong to this user alone", problem, _OTHERS_FILE)
    return file


def _attach(name: str, *, create: bool) -> tuple[int, _Locks]:
    """The segment's file, opened and marked as used."""
    path = _path(name)
    while True:
        try:
            file = _open(name, os.O_RDWR | (os.O_CREAT if create else 0))
        except FileNotFoundError:
            raise StorageError(
                _title(name), "exist", "no such segment", "Start the process that makes it first."
            ) from None
        locks = _Locks(file)
        locks.share(_USERS)
        try:
            if os.path.samestat(os.lstat(path), os.fstat(file)):
                return file, locks
        except FileNotFoundError:
            pass
        os.close(file)  # removed between opening and locking


def _settle(name: str, file: int, locks: _Locks, layout: Layout | None) -> Layout:
    """The layout of the segment, which is made now if one is given."""
    title = _title(name)
    locks.take(_SETUP, wait=True)
    try:
        found = read_header(file, title) if os.fstat(file).st_size else None
        if layout is None:
            if found is None:
                raise StorageError(title, "exist", "one that is not finished", "Start the process that makes it first.")
            return found
        if found is not None:
            raise StorageError(
                title,
                "be new",
                "one that is there already",
                "Memory.open and Writer use it; python -m relive.sweep removes it if nobody does.",
            )
        total = rows_at(layout) + layout.nbytes
        try:
            reserve(file, total)
        except OSError as error:
            raise StorageError(
                title,
                f"fit in {_FOLDER} ({total / 2**20:.0f} MiB)",
                error.strerror or str(error),
                "Use less capacity, or give it more room (docker run --shm-size).",
            ) from None
        write_header(file, layout)
        return layout
    finally:
        locks.drop(_SETUP)


def _let_go(name: str, file: int, locks: _Locks) -> None:
    # One at a time: two that leave together would each find the other still there.
    locks.take(_SETUP, wait=True)
    if locks.take(_USERS):  # nobody else uses it
        _unlink_same(_path(name), file)
    os.close(file)


def _unlink_same(path: Path, file: int) -> None:
    try:
        if os.path.samestat(os.lstat(path), os.fstat(file)):
            path.unlink()
    except FileNotFoundError:
        pass


@final
@dataclass(frozen=True, slots=True)
class Shared:
    """Rows in a shared-memory segment with a name: actors write as ``Writer``, the learner reads as ``Memory``.

    A new memory creates the segment; ``Memory.open`` and ``Writer`` open an existing one. Every lane has one writer at
    a time, and reads are optimistic, without locks. The segment is removed with its last user. If all were killed it
    stays: ``Memory.open`` recovers its rows, and ``python -m relive.sweep`` removes it.
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or self.name in (".", ".."):
            raise OptionError("name", "be 1 to 100 letters, digits, dots, dashes or underscores", repr(self.name))

    def open(self, layout: Layout | None) -> SharedGround:
        """A new segment for rows of this layout; None: the rows in the one that is there."""
        if sys.platform != "linux":
            raise OptionError("storage", "be Ram or Mapped on this system", "Shared", "It needs Linux.")
        return SharedGround(self.name, layout)

    def layout(self) -> Layout:
        """The layout of the rows in the segment."""
        try:
            file = _open(self.name, os.O_RDONLY)
        except FileNotFoundError as error:
            raise StorageError(_title(self.name), "exist", error.strerror or error, NEW) from None
        try:
            return layout_in(file, _title(self.name))
        finally:
            os.close(file)

    def exists(self) -> bool:
        """Whether the segment has been made."""
        try:
            file = _open(self.name, os.O_RDONLY)
        except (FileNotFoundError, StorageError):
            return False
        try:
            return is_finished(file)
        finally:
            os.close(file)

    @staticmethod
    def sweep() -> list[str]:
        """Remove the segments that nobody uses, left behind by processes that were killed; returns their names."""
        removed = []
        for path in sorted(_FOLDER.glob(f"{_PREFIX}*")):
            name = path.name[len(_PREFIX) :]
            try:
                file = _open(name, os.O_RDWR)
            except (OSError, StorageError):
                continue
            try:
                if _Locks(file).take(_USERS):
                    _unlink_same(path, file)
                    removed.append(name)
            finally:
                os.close(file)
        return removed
