"""Atomic file writes."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["own", "put", "sync_folder"]


def put(path: Path, data: bytes) -> None:
    """Replace a file atomically, synced to disk."""
    new = path.with_name(f"{path.name}-{secrets.token_hex(8)}.new")
    try:
        with open(new, "xb") as file:  # an unpredictable new name, so never a link
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put a folder's names on disk, where the system has such a call (Windows does not)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def own(path: Path) -> Path:
    """A path in a run's folder to write to; a symbolic link there is removed, so that nothing is written elsewhere."""
    if path.is_symlink():
        path.unlink()
    return path
