"""Atomic file writes."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["atomic_write", "remove_symlink", "sync_folder"]


def atomic_write(path: Path, data: bytes) -> None:
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


def remove_symlink(path: Path) -> Path:
    """Remove a symbolic link at a path, so that writing there writes nowhere else; returns the path."""
    if path.is_symlink():
        path.unlink()
    return path
