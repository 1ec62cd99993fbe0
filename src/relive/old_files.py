"""Recognition of files that this project wrote under its former name, ``recollect``. They are not read."""

from __future__ import annotations

__all__ = ["GOT", "REMEDY", "is_old"]

GOT = "what recollect wrote, as this project was called before"
REMEDY = (
    "relive does not read it. With the recollect that wrote it, export memories to npz (Memory.export), which "
    "Memory.from_dataset reads; runs have to be trained again."
)


def is_old(mark: object) -> bool:
    """Whether a mark of a file (its first bytes, its format's name, its metadata) is of the former name."""
    text = mark.decode("latin-1") if isinstance(mark, bytes) else str(mark)
    return text.startswith("recollect")
