"""Logs of what was appended after a snapshot (docs/format.md, "Journals"). The core writes them; here they are read."""

from __future__ import annotations

import json
import os
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from relive import _core
from relive.errors import SnapshotError
from relive.memory.snapshot.disk import Disk, open_file
from relive.memory.snapshot.manifest import digest
from relive.memory.storage import Layout

__all__ = ["begin_journal", "replay"]

Array: TypeAlias = np.ndarray[Any, Any]

FORMAT = "relive journal"
VERSION = 1

_FRAME = struct.Struct("<QQ")
_RUN = struct.Struct("<qqq")
_MOST_ABOUT = 1 << 16
_ABOUT, _ROWS, _CUT, _CLEAR, _FORGET = range(5)


def begin_journal(disk: Disk, path: Path, layout: Layout, follows: str | None, *, synced: bool) -> int:
    """A new journal, open at its end; ``follows`` names the one that it continues."""
    about = {
        "format": FORMAT,
        "version": VERSION,
        "layout": _layout_digest(layout),
        "follows": follows,
        "synced": synced,
    }
    payload = struct.pack("<q", _ABOUT) + json.dumps(about).encode()
    file = disk.create(path)
    try:
        disk.write(file, _FRAME.pack(len(payload), _hash(payload)) + payload)
        disk.sync(file)
        disk.sync_folder(path.parent)
    except BaseException:
        os.close(file)
        disk.remove(path)
        raise
    return file


def replay(folder: Path, first: str, layout: Layout, store: _core.Store, *, salvage: bool) -> None:
    """Replay a journal and those that continue it.

    Args:
        salvage: Stop at the first record that is damaged instead of refusing the journal.

    Raises:
        SnapshotError: If a record is damaged; not if the last one was cut off.
    """
    name: str | None = first
    known: set[str] = set()
    while name is not None and name not in known:
        known.add(name)
        if not _replay_one(folder / name, layout, store, salvage=salvage):
            return
        name = _follower(folder, name, layout)


def _replay_one(path: Path, layout: Layout, store: _core.Store, *, salvage: bool) -> bool:
    """True if all of it was replayed."""
    synced, at = True, -1
    try:
        for at, payload in _records(path, _most_record(layout)):
            (kind,) = struct.unpack_from("<q", payload)
            if at == 0:
                synced = _check_about(path, kind, payload, layout)
            elif not _apply(kind, payload, layout, store):
                rule = "go on where the rows before it end"
                raise SnapshotError(str(path), rule, f"another record at byte {at}", _REMEDY)
        if at < 0:
            raise SnapshotError(str(path), "begin with a record about itself", "nothing", _REMEDY)
    except SnapshotError as error:
        if synced and not salvage:
            raise
        # Without syncing, a crash of the machine leaves the end in any state.
        warnings.warn(f"The journal is used up to the damage: {error}", RuntimeWarning, stacklevel=6)
        return False
    return True


def _apply(kind: int, payload: bytes, layout: Layout, store: _core.Store) -> bool:
    if kind == _CLEAR:
        store.clear()
        return len(payload) == 16
    if kind == _CUT and len(payload) == 16:
        (lane,) = struct.unpack_from("<q", payload, 8)
        if 0 <= lane < layout.lanes:
            store.cut(lane)
            return True
        return False
    if kind == _FORGET and len(payload) == 24:
        lane, before = struct.unpack_from("<qq", payload, 8)
        if 0 <= lane < layout.lanes:
            store.forget(lane, before)
            return True
        return False
    if kind != _ROWS:
        return False
    data, at = np.frombuffer(payload, np.uint8), 8
    while at < len(data):
        if at + _RUN.size > len(data):
            return False
        lane, serial, count = _RUN.unpack_from(payload, at)
        at += _RUN.size
        if not (0 <= lane < layout.lanes and 0 < count <= layout.span and 0 <= serial < 1 << 60):
            return False
        if at + count * (layout.schema.row_nbytes + 1) > len(data):
            return False
        flags = data[at : at + count]
        at += count
        arrays = []
        for column in layout.schema:
            part = data[at : at + count * column.nbytes]
            arrays.append(part.view(column.dtype).reshape(count, *column.shape))
            at += count * column.nbytes
        if not store.put(lane, serial, flags, arrays, True):
            return False
    return True


def _most_record(layout: Layout) -> int:
    """More than the core puts into one: it stops at the first lane's rows past four megabytes."""
    return (8 << 20) + 4 * layout.schema.row_nbytes


def _records(path: Path, most: int) -> Iterator[tuple[int, bytes]]:
    """Offset and payload of every whole record. A last one that was cut off, or zeros where it should be, ends them."""
    with os.fdopen(open_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        at = 0
        while at + _FRAME.size <= size:
            length, found = _FRAME.unpack(file.read(_FRAME.size))
            if (
                length == 0
                and found == 0
                and not any(piece.strip(b"\0") for piece in iter(lambda: file.read(1 << 20), b""))
            ):
                return
            if length < 8 or length > most:
                raise SnapshotError(str(path), "hold whole records", f"one of {length} bytes at byte {at}", _REMEDY)
            if at + _FRAME.size + length > size:
                return
            payload = file.read(length)
            if _hash(payload) != found:
                raise SnapshotError(str(path), "hold whole records", f"a damaged one at byte {at}", _REMEDY)
            yield at, payload
            at += _FRAME.size + length


_REMEDY = "Load it with salvage=True for the rows before."


def _about(payload: bytes) -> dict[str, Any]:
    try:
        about = json.loads(payload[8 : 8 + _MOST_ABOUT])
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _check_about(path: Path, kind: int, payload: bytes, layout: Layout) -> bool:
    """True if it was put on disk at every step."""
    about = _about(payload) if kind == _ABOUT else {}
    if about.get("format") != FORMAT:
        raise SnapshotError(str(path), f"begin with the format {FORMAT!r}", "something else")
    if about.get("version") != VERSION:
        raise SnapshotError(
            str(path), f"be of format version {VERSION}", str(about.get("version"))[:40], "Use a newer relive."
        )
    if about.get("layout") != _layout_digest(layout):
        raise SnapshotError(str(path), "log rows of the snapshot's layout", "another layout")
    return about.get("synced") is not False


def _follower(folder: Path, name: str, layout: Layout) -> str | None:
    """The journal that continues another: if failed saves left several, the one with rows."""
    found: dict[str, int] = {}
    for path in sorted(folder.glob("journal-*.log")):
        try:
            _, payload = next(_records(path, _MOST_ABOUT))
        except (StopIteration, SnapshotError):
            continue
        about = _about(payload)
        if about.get("follows") == name and about.get("layout") == _layout_digest(layout):
            found[path.name] = path.stat().st_size
    return max(found, key=lambda name: found[name], default=None)


def _layout_digest(layout: Layout) -> str:
    return digest(json.dumps(layout.plain(), sort_keys=True).encode())


def _hash(payload: bytes) -> int:
    hashed = _core.Hash()
    hashed.update(payload)
    return hashed.digest()
