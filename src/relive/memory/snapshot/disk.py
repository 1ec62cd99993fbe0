"""File-system calls of snapshots, few enough for tests to inject failures into each."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, final

from relive import _core
from relive.atomic_files import sync_folder
from relive.errors import SnapshotError
from relive.memory.storage.forks import kept_from_children

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Disk", "SystemDisk"]


class Disk(Protocol):
    """What saving does to files. A file counts as safe after ``sync``, its name after ``sync_folder``."""

    def create(self, path: Path) -> int:
        """A new file, open for writing."""
        ...

    def write(self, file: int, data: Any) -> None:
        """Write all bytes at the file's position."""
        ...

    def hurry(self, file: int) -> None:
        """Begin to put the file on disk, so that there is less to wait for later."""
        ...

    def sync(self, file: int) -> None:
        """Put the file on disk."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in the same folder, in place of what had it."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Put the folder's names on disk."""
        ...


@final
class SystemDisk:
    """The operating system's file system."""

    def create(self, path: Path) -> int:
        """A new file, open for writing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)

    def write(self, file: int, data: Any) -> None:
        """Write all bytes at the file's position."""
        view = memoryview(data).cast("B")
        while len(view):
            view = view[os.write(file, view) :]

    def hurry(self, file: int) -> None:
        """Begin to put the file on disk, so that there is less to wait for later."""
        _core.hurry(file)

    def sync(self, file: int) -> None:
        """Put the file on disk."""
        os.fsync(file)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in the same folder, in place of what had it."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Put the folder's names on disk."""
        sync_folder(folder)


def open_file(path: Path) -> int:
    """A file that is one, open for reading; not a link, a pipe or a device.

    Raises:
        SnapshotError: If there is none.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        file = os.open(path, flags)
    except OSError as error:
        raise SnapshotError(str(path), "be there", error.strerror or error, "Is the snapshot whole?") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise SnapshotError(str(path), "be a file", "something else")
    return file


@contextmanager
def locked(folder: Path, *, writing: bool) -> Iterator[None]:
    """Keeps savers of a folder apart, and loaders from savers; waits for its turn."""
    if fcntl is None:
        yield
        return
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with kept_from_children(file):
            fcntl.flock(file, fcntl.LOCK_EX if writing else fcntl.LOCK_SH)
            yield
            fcntl.flock(file, fcntl.LOCK_UN)
    finally:
        os.close(file)
