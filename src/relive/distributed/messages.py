"""Serialisation of batches and priorities between shards and learners, without pickle."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from relive.memory import Batch
from relive.memory.batch import flat, nested
from relive.memory.packing import pooled
from relive.types import Array

__all__ = ["Layout", "Update", "head_of", "pack_batches", "pack_updates", "unpack_batches", "unpack_updates"]


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


class Layout(NamedTuple):
    """The byte layout of a batch's arrays, each padded to a multiple of 64 bytes."""

    described: bytes
    nbytes: int
    rows: tuple[int, int]
    """Where ``lanes`` and ``serials`` begin."""

    @staticmethod
    def of(batch: Batch) -> Layout:
        """That of a batch, whose arrays come in its order."""
        entries, at, begins = [], 0, {}
        for key, array in flat(batch):
            entries.append((key, array.dtype.str, array.shape))
            begins[key] = at
            at += array.nbytes + -array.nbytes % _ALIGNED
        return Layout(json.dumps(entries).encode(), at, (begins["lanes"], begins["serials"]))

    def drawn(self, data: bytes, begin: int, size: int) -> tuple[Array, Array]:
        """Lanes and serials of a batch that begins there."""
        lanes, serials = (np.frombuffer(data, np.int64, size, begin + at) for at in self.rows)
        return lanes, serials


def head_of(head: dict[str, Any], layouts: Sequence[bytes], which: Sequence[int]) -> bytes:
    """The header of a message: plain data, array layouts, and the layout of each batch."""
    text = json.dumps({**head, "which": list(which), "layouts": [len(layout) for layout in layouts]}).encode()
    text += b" " * (-(len(text) + sum(map(len, layouts)) + _HEAD.size) % _ALIGNED)
    return b"".join([_HEAD.pack(len(text), 0), text, *layouts])


def pack_batches(head: dict[str, Any], batches: Sequence[Batch]) -> bytes:
    """Batches behind a head. Those whose arrays are alike share one description."""
    layouts: dict[bytes, int] = {}
    which: list[int] = []
    parts: list[Any] = []
    for batch in batches:
        for _, array in flat(batch):
            parts.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
            if pad := -array.nbytes % _ALIGNED:
                parts.append(_PADDING[:pad])
        which.append(layouts.setdefault(Layout.of(batch).described, len(layouts)))
    return b"".join([head_of(head, list(layouts), which), *parts])


def unpack_batches(data: bytes) -> tuple[dict[str, Any], list[Batch]]:
    """The head and the batches, whose arrays can be written to."""
    size, _ = _HEAD.unpack_from(data)
    at = _HEAD.size + size
    head = json.loads(data[_HEAD.size : at])
    plans = []
    for length in head["layouts"]:
        plans.append(_plan(data[at : at + length]))
        at += length
    room = pooled(max(len(data) - at, 1))  # fresh pages cost more than the copying
    room[: len(data) - at] = np.frombuffer(data, np.uint8, offset=at)
    begin, found = 0, []
    for place in head["which"]:
        plan = plans[place]
        arrays = {key: np.ndarray(shape, dtype, room, begin + offset) for key, shape, dtype, offset in plan.arrays}
        found.append(nested(arrays) if plan.nested else Batch(arrays))
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
