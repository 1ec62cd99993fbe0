"""The header of a file of rows (docs/format.md, "Files of rows")."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

from relive import _core
from relive.errors import StorageError
from relive.memory.storage.ground import Layout
from relive.old_files import GOT, REMEDY, is_old

__all__ = ["NEW", "SESSION_AT", "is_finished", "layout_in", "read_header", "rows_at", "write_header"]

NEW = "Make a new memory with Memory(schema, ...)."

MAGIC = b"relive rows\r\n\x1a\r\n"
VERSION = 1
SESSION_AT = 4096
_JSON_AT = 8192
_UNIT = 1 << 16
_MOST_JSON = 1 << 24
_PREAMBLE = struct.Struct("<16sIIQ")


def rows_at(layout: Layout) -> int:
    """Where in the file the rows begin."""
    return -(-(_JSON_AT + len(_encode(layout))) // _UNIT) * _UNIT


def write_header(file: int, layout: Layout) -> None:
    """Write the header of a file that has its size already; the magic bytes come last and make it valid."""
    text = _encode(layout)
    os.pwrite(file, text, _JSON_AT)
    os.fsync(file)
    os.pwrite(file, _PREAMBLE.pack(MAGIC, VERSION, len(text), _hash(text)), 0)
    os.fsync(file)


def is_finished(file: int) -> bool:
    """Whether the magic bytes, which are written last, are there."""
    return bool(os.pread(file, _PREAMBLE.size, 0).strip(b"\0"))


def read_header(file: int, name: str) -> Layout | None:
    """The layout that a file describes; None if it was never finished.

    Raises:
        StorageError: If the file is of another kind or version, or damaged.
    """
    if not is_finished(file):
        return None
    size = os.fstat(file).st_size
    first = os.pread(file, _PREAMBLE.size, 0)
    if is_old(first):
        raise StorageError(name, "be a file of rows made by relive", GOT, REMEDY)
    if len(first) < _PREAMBLE.size or not first.startswith(MAGIC):
        raise StorageError(name, "be a file of rows made by relive", "another kind of file", "Choose another path.")
    _, version, length, digest = _PREAMBLE.unpack(first)
    if version != VERSION:
        remedy = "Use the relive that wrote it, or a newer one." if version > VERSION else ""
        raise StorageError(name, f"be of format version {VERSION}", version, remedy)
    if length > _MOST_JSON:
        raise StorageError(name, f"have a header of at most {_MOST_JSON} bytes", length, "The file is damaged.")
    text = os.pread(file, length, _JSON_AT)
    if len(text) < length or _hash(text) != digest:
        raise StorageError(name, "have a whole header", "a damaged one", "Restore the file from a copy.")
    try:
        data: Any = json.loads(text)
        layout = Layout.from_plain(data)
    except (ValueError, RecursionError) as error:
        raise StorageError(name, "describe its rows", str(error), "Restore the file from a copy.") from None
    expected = rows_at(layout) + layout.nbytes
    if size != expected:
        raise StorageError(name, f"be {expected} bytes long", size, "It was cut off: restore it from a copy.")
    return layout


def layout_in(file: int, name: str) -> Layout:
    """The layout of a file of rows.

    Raises:
        StorageError: If it is none.
    """
    found = read_header(file, name) if os.fstat(file).st_size else None
    if found is None:
        raise StorageError(name, "hold rows", "an empty file", NEW)
    return found


def _encode(layout: Layout) -> bytes:
    return json.dumps(layout.plain(), sort_keys=True).encode()


def _hash(text: bytes) -> int:
    digest = _core.Hash()
    digest.update(text)
    return digest.digest()
