"""Rows serialised for transfer between memories (docs/format.md, "Packed rows")."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from relive import _core
from relive.errors import OptionError
from relive.schema import Schema
from relive.types import Array

__all__ = ["Run", "pack", "pooled", "unpack"]


_MAGIC = b"RLrows1\0"
_COUNT = struct.Struct("<q")
_CLOSING = 4  # core/memory/rows.hpp
_REMEDY = "Only what pack_rows made of the same schema can be received."


class Run(NamedTuple):
    """Consecutive packed rows of one lane."""

    lane: int
    serial: int
    flags: Array
    arrays: list[Array]

    @property
    def steps(self) -> int:
        """Rows that are steps; the others close episodes."""
        return int(np.count_nonzero((self.flags & _CLOSING) == 0))

    def after(self, serial: int) -> Run:
        """The rows from a serial on."""
        skip = max(serial - self.serial, 0)
        return Run(self.lane, self.serial + skip, self.flags[skip:], [array[skip:] for array in self.arrays])


def pooled(nbytes: int) -> Array:
    """A buffer from a pool, reused once no array refers to it: fresh pages cost more than copying."""
    return _core.pooled(nbytes)


def pack(store: _core.Store, schema: Schema, runs: Sequence[tuple[int, int, int]], named: Array) -> bytes:
    """Serialised runs of rows, each a lane, a serial and a count.

    Args:
        named: The runs at the receiver, ``[n, 3]``.
    """
    table = np.asarray(runs, np.int64).reshape(-1, 3)
    rows = int(table[:, 2].sum())
    widths = [1, *(column.nbytes for column in schema.columns)]
    parts = [_MAGIC, _COUNT.pack(len(table)), np.ascontiguousarray(named, np.int64).tobytes()]
    for index, width in enumerate(widths):
        taken = np.zeros(_padded(rows * width), np.uint8)
        store.take(index - 1, table, taken)
        parts.append(taken.data)  # type: ignore[arg-type]
    return b"".join(parts)


def unpack(schema: Schema, lanes: int, span: int, data: bytes) -> Iterator[Run]:
    """The runs, as views of the bytes.

    Raises:
        OptionError: If these are no packed rows of the schema.
    """
    begin = len(_MAGIC) + _COUNT.size
    if not isinstance(data, bytes) or data[: len(_MAGIC)] != _MAGIC or len(data) < begin:
        raise _refused("bytes that begin otherwise")
    (count,) = _COUNT.unpack_from(data, len(_MAGIC))
    if not 0 <= count <= (len(data) - begin) // 24:
        raise _refused(f"{count} runs")
    table = np.frombuffer(data, np.int64, 3 * count, begin).reshape(count, 3)
    sizes = table[:, 2]
    in_range = (table[:, 0] >= 0) & (table[:, 0] < lanes) & (table[:, 1] >= 0) & (sizes >= 1) & (sizes <= span)
    if not in_range.all():
        raise _refused(f"the run {table[~in_range][0].tolist()} for {lanes} lanes of {span} rows")
    rows = int(sizes.sum())
    at = begin + table.nbytes
    if len(data) != at + sum(_padded(rows * width) for width in (1, *(column.nbytes for column in schema.columns))):
        raise _refused(f"{len(data)} bytes for {rows} rows")
    flags = np.frombuffer(data, np.uint8, rows, at)
    at += _padded(rows)
    columns = []
    for column in schema.columns:
        values = np.frombuffer(data, np.uint8, rows * column.nbytes, at).view(column.dtype)
        columns.append(values.reshape(rows, *column.shape))
        at += _padded(rows * column.nbytes)
    done = 0
    for lane, serial, some in table.tolist():
        yield Run(lane, serial, flags[done : done + some], [array[done : done + some] for array in columns])
        done += some


def _padded(size: int) -> int:
    return -(-size // 16) * 16


def _refused(got: str) -> OptionError:
    return OptionError("rows", "be packed rows of this memory's schema", got, _REMEDY)
