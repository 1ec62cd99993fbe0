"""Reading a snapshot: every byte is checked before it is believed."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from recollect import _core
from recollect.errors import SnapshotError
from recollect.memory.snapshot.compression import expand
from recollect.memory.samplers import Sampler
from recollect.memory.snapshot.manifest import FileNote, Manifest, Segment, digest
from recollect.memory.snapshot.parts import STATE_HEADER, state_tensors
from recollect.memory.snapshot.tensors import FormatError, Tensor, read_tensors
from recollect.memory.storage import Layout

__all__ = ["load_rows", "load_state"]

Array: TypeAlias = np.ndarray[Any, Any]

_DAMAGED = "It is damaged: restore it from a copy."


def load_rows(manifest: Manifest, folder: Path, store: _core.Store) -> None:
    """Fill an empty store with a snapshot's rows.

    Raises:
        SnapshotError: With the file that is at fault.
    """
    for segment in manifest.segments:
        _load_segment(folder, segment, manifest.layout, store)
    for number, lane in enumerate(manifest.lanes):
        start = lane.start
        if start is None:
            # Rows before the tail were lost while saving: the oldest row's episode may have begun before it.
            first = lane.tail < lane.head and store.flags()[number, lane.tail % manifest.layout.span] & 8
            start = lane.tail if first or lane.tail == 0 else lane.tail - 1
        if not store.adopt(number, lane.tail, lane.head, start, lane.gone):
            raise SnapshotError(str(folder), f"hold whole episodes in lane {number}", "flags that form none", _DAMAGED)


def load_state(manifest: Manifest, folder: Path, reader: _core.Reader, sampler: Sampler) -> None:
    """Give a reader what the snapshot's sampler kept.

    Raises:
        SnapshotError: With the file that is at fault.
    """
    state: Array = np.empty(0, np.uint8)
    name = str(folder / manifest.state.file) if manifest.state else str(folder)
    if manifest.state is not None:
        data = _open(folder, manifest.state)
        wanted = state_tensors(sampler, manifest.layout, max(0, len(data) - STATE_HEADER))
        state = _tensors(name, data, wanted).popitem()[1].reshape(-1).view(np.uint8)
    if not reader.restore(state, manifest.largest):
        raise SnapshotError(name, "hold what the sampler kept for these rows", "something else", _DAMAGED)


def _load_segment(folder: Path, segment: Segment, layout: Layout, store: _core.Store) -> None:
    name = str(folder / segment.note.file)
    wanted: dict[str, Tensor] = {"flags": (np.dtype(np.uint8), (segment.rows,))}
    for column in layout.schema:
        wanted[f"field/{column.key}"] = (column.dtype, (segment.rows, *column.shape))
    data = _open(folder, segment.note)
    if segment.note.file.endswith(".zst"):
        total = segment.rows * (layout.schema.row_nbytes + 1) + (16 << 20)
        try:
            data = expand(data, total)
        except (FormatError, MemoryError) as error:
            raise SnapshotError(name, "be a compressed segment", error, _DAMAGED) from None
    arrays = _tensors(name, data, wanted)
    columns = [arrays[f"field/{column.key}"] for column in layout.schema]
    for run in segment.runs:
        part = slice(run.at, run.at + run.count)
        if run.count > layout.span:
            raise SnapshotError(name, f"hold runs of at most {layout.span} rows", run.count, _DAMAGED)
        store.put(run.lane, run.first, arrays["flags"][part], [column[part] for column in columns])


def _tensors(name: str, data: Array, wanted: dict[str, Tensor]) -> dict[str, Array]:
    try:
        return read_tensors(data, wanted)
    except FormatError as error:
        raise SnapshotError(name, error.rule, error.got, _DAMAGED) from None


def _open(folder: Path, note: FileNote) -> Array:
    """The bytes of a file, mapped, after they were found to be those that were saved."""
    path = folder / note.file
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise SnapshotError(str(path), "be there", error.strerror or error, _DAMAGED) from None
    try:
        size = os.fstat(file).st_size
        if size != note.bytes:
            raise SnapshotError(str(path), f"be {note.bytes} bytes long", size, _DAMAGED)
        mapped = mmap.mmap(file, 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise SnapshotError(str(path), "be a file that can be read", error.strerror or error) from None
    finally:
        os.close(file)
    found = digest(mapped)
    if found != note.xxh64:
        raise SnapshotError(str(path), f"have the XXH64 {note.xxh64}", found, _DAMAGED)
    return np.frombuffer(mapped, np.uint8)
