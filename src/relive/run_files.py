"""Files inside a run's folder, which may come from a stranger: links, pipes and devices are refused.

Every file of a run's folder is opened here and nowhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO, Any

from relive.atomic_files import atomic_write
from relive.errors import RunError

__all__ = ["append", "has_file", "make_folder", "open_file", "path_inside", "read", "write"]

_REMEDY = "Remove it, or use another folder."


def path_inside(folder: Path, name: str) -> Path:
    """The path of a file or folder inside a run's folder.

    Raises:
        RunError: If it, or a folder on the way, is a symbolic link, a pipe or a device.
    """
    path = folder
    for part in Path(name).parts:
        path = path / part
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "a pipe or a device"
            raise RunError(str(path), "be an ordinary file or folder", kind, _REMEDY)
    return path


def open_file(folder: Path, name: str, mode: str = "rb") -> IO[Any]:
    """A file inside a run's folder: to read (``r``), or to add to (``a``).

    Raises:
        RunError: If it is a link, a pipe, a device or a folder.
        FileNotFoundError: If there is none to read.
    """
    path = path_inside(folder, name)
    access = os.O_WRONLY | os.O_APPEND | os.O_CREAT if "a" in mode else os.O_RDONLY
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        file = os.open(path, access | safe, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a pipe without a reader, a folder
            raise RunError(str(path), "be an ordinary file", error.strerror, _REMEDY) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise RunError(str(path), "be an ordinary file", "a pipe, a device or a folder", _REMEDY)
    return open(file, mode) if "b" in mode else open(file, mode, encoding="utf-8", newline="")


def read(folder: Path, name: str, most: int) -> bytes:
    """The bytes of a file inside a run's folder.

    Raises:
        RunError: If it is no ordinary file, or longer than ``most`` bytes.
        FileNotFoundError: If there is none.
    """
    with open_file(folder, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise RunError(str(folder / name), f"have at most {most} bytes", size)
        return bytes(file.read(size))


def write(folder: Path, name: str, data: bytes) -> None:
    """Replace a file inside a run's folder atomically, synced to disk."""
    atomic_write(path_inside(folder, name), data)


def append(folder: Path, name: str, text: str) -> None:
    """Add text to the end of a file inside a run's folder."""
    with open_file(folder, name, "a") as file:
        file.write(text)


def make_folder(folder: Path, name: str) -> Path:
    """A folder inside a run's folder, made if there is none.

    Raises:
        RunError: If something else has its name.
    """
    path = path_inside(folder, name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise RunError(str(path), "be a folder", "a file", _REMEDY) from None
    return path


def has_file(folder: Path, name: str) -> bool:
    """Whether a run's folder has an ordinary file of a name."""
    try:
        return stat.S_ISREG(os.lstat(folder / name).st_mode)
    except (OSError, ValueError):
        return False
