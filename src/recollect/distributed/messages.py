"""Batches and priorities as bytes: what shards and learners send each other. Nothing of it is pickled."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from recollect.memory import Batch
from recollect.memory.batch import nested

__all__ = ["Update", "pack_batches", "pack_updates", "unpack_batches", "unpack_updates"]

Array: TypeAlias = np.ndarray[Any, Any]

_HEAD = struct.Struct("<qq")
_UPDATE = struct.Struct("<qqq")
_ALIGNED = 64
_MOST = 3e38  # of float32
_PADDING = bytes(_ALIGNED)


class Update(NamedTuple):
    """Errors of a batch that was drawn, by the shard's epoch and the number of its draw."""

    epoch: int
    draw: int
    errors: Array


def pack_updates(updates: Sequence[Update]) -> bytes:
    """Errors of several batches."""
    parts: list[bytes] = []
    for update in updates:
        errors = np.minimum(np.abs(update.errors), _MOST).astype(np.float32)
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
    layouts: dict[tuple[Any, ...], int] = {}
    which: list[int] = []
    parts: list[Any] = []
    for batch in batches:
        flat = _flat(batch)
        layout = tuple((key, array.dtype.str, array.shape) for key, array in flat)
        for _, array in flat:
            parts.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
            if pad := -array.nbytes % _ALIGNED:
                parts.append(_PADDING[:pad])
        which.append(layouts.setdefault(layout, len(layouts)))
    described = [json.dumps(layout).encode() for layout in layouts]
    text = json.dumps({**head, "which": which, "layouts": [len(layout) for layout in described]}).encode()
    text += b" " * (-(len(text) + sum(map(len, described)) + _HEAD.size) % _ALIGNED)
    return b"".join([_HEAD.pack(len(text), 0), text, *described, *parts])


def unpack_batches(data: bytes) -> tuple[dict[str, Any], list[Batch]]:
    """The head and the batches, whose arrays can be written to."""
    size, _ = _HEAD.unpack_from(data)
    at = _HEAD.size + size
    head = json.loads(data[_HEAD.size : at])
    plans = []
    for length in head["layouts"]:
        plans.append(_plan(data[at : at + length]))
        at += length
    room = np.empty(len(data) - at + _ALIGNED, np.uint8)
    shift = -room.ctypes.data % _ALIGNED
    room[shift : shift + len(data) - at] = np.frombuffer(data, np.uint8, offset=at)
    begin, found = shift, []
    for place in head["which"]:
        plan = plans[place]
        flat = {key: np.ndarray(shape, dtype, room, begin + offset) for key, shape, dtype, offset in plan.arrays}
        found.append(nested(flat) if plan.nested else Batch(flat))
        begin += plan.nbytes
    return head, found


class _Plan(NamedTuple):
    """Where the arrays of a batch lie."""

    arrays: tuple[tuple[str, tuple[int, ...], np.dtype[Any], int], ...]
    nbytes: int
    nested: bool


@lru_cache(maxsize=256)
def _plan(layout: bytes) -> _Plan:
    at, arrays = 0, []
    for key, name, shape in json.loads(layout):
        dtype = np.dtype(name)
        if dtype.kind not in "biuf":
            raise ValueError(f"no numbers: {name}")
        arrays.append((key, tuple(shape), dtype, at))
        size = math.prod(shape) * dtype.itemsize
        at += size + -size % _ALIGNED
    return _Plan(tuple(arrays), at, any("/" in key for key, *_ in arrays))


def _flat(values: dict[str, Any], above: str = "") -> list[tuple[str, Array]]:
    found: list[tuple[str, Array]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{above}{key}/")
        else:
            found.append((f"{above}{key}", value))
    return found
