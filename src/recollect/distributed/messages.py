"""Batches and priorities as bytes: what shards and learners send each other. Nothing of it is pickled."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from recollect.memory import Batch
from recollect.memory.batch import nested

__all__ = ["Update", "pack_batches", "pack_updates", "unpack_batches", "unpack_updates"]

Array: TypeAlias = np.ndarray[Any, Any]

_HEAD = struct.Struct("<qq")
_UPDATE = struct.Struct("<qqq")
_ALIGNED = 64


class Update(NamedTuple):
    """Errors of a batch that was drawn, by the shard's epoch and the number of its draw."""

    epoch: int
    draw: int
    errors: Array


def pack_updates(updates: Sequence[Update]) -> bytes:
    """Errors of several batches."""
    parts: list[bytes] = []
    for update in updates:
        errors = np.ascontiguousarray(update.errors, np.float32)
        parts += [_UPDATE.pack(update.epoch, update.draw, errors.size), errors.tobytes()]
    return b"".join(parts)


def unpack_updates(data: bytes) -> Iterator[Update]:
    """Errors of several batches."""
    at = 0
    while at + _UPDATE.size <= len(data):
        epoch, draw, count = _UPDATE.unpack_from(data, at)
        at += _UPDATE.size
        if count < 0 or at + 4 * count > len(data):
            raise ValueError("updates that are cut off")
        yield Update(epoch, draw, np.frombuffer(data, np.float32, count, at))
        at += 4 * count


def pack_batches(head: dict[str, Any], batches: Sequence[Batch]) -> bytes:
    """Batches behind a head of plain data. Those whose arrays are alike share one description."""
    layouts: list[list[Any]] = []
    which: list[int] = []
    parts: list[Any] = []
    for batch in batches:
        layout = []
        for key, array in _flat(batch):
            array = np.ascontiguousarray(array)
            layout.append([key, array.dtype.str, list(array.shape)])
            parts += [array.reshape(-1).view(np.uint8).data, b"\0" * (-array.nbytes % _ALIGNED)]
        if layout not in layouts:
            layouts.append(layout)
        which.append(layouts.index(layout))
    text = json.dumps({**head, "layouts": layouts, "which": which}).encode()
    text += b" " * (-(len(text) + _HEAD.size) % _ALIGNED)
    return b"".join([_HEAD.pack(len(text), 0), text, *parts])


def unpack_batches(data: bytes) -> tuple[dict[str, Any], list[Batch]]:
    """The head and the batches, whose arrays can be written to."""
    size, _ = _HEAD.unpack_from(data)
    head = json.loads(data[_HEAD.size : _HEAD.size + size])
    whole = np.empty(len(data) + _ALIGNED, np.uint8)
    shift = -whole.ctypes.data % _ALIGNED
    whole = whole[shift : shift + len(data)]
    whole[:] = np.frombuffer(data, np.uint8)
    at, found = _HEAD.size + size, []
    for place in head["which"]:
        flat = {}
        for key, name, shape in head["layouts"][place]:
            dtype = np.dtype(name)
            count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            flat[key] = whole[at : at + count].view(dtype).reshape(shape)
            at += count + -count % _ALIGNED
        found.append(nested(flat) if any("/" in key for key in flat) else Batch(flat))
    return head, found


def _flat(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Array]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}/")
        else:
            yield f"{above}{key}", value
