"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["put"]


def put(path: Path, data: bytes) -> None:
    """Put a file in the place of another at once, and know it on disk."""
    new = path.with_suffix(f"{path.suffix}.new")
    with open(new, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
