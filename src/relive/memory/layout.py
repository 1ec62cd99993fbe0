"""The byte layout of a row."""

from __future__ import annotations

from relive.schema import Schema

__all__ = ["PACKED_AT_MOST", "place"]

# Fields up to this many bytes lie together in one packed row; larger ones have an array of their own.
# Measured: docs/decisions.md, "Packed rows".
PACKED_AT_MOST = 256


def place(schema: Schema, packed_at_most: int = PACKED_AT_MOST) -> tuple[list[int], list[tuple[int, int]]]:
    """Bytes of a row in each panel, and (panel, offset) of each field.

    Within a packed row the widest dtypes come first, so that every value is aligned and nothing is wasted between.
    """
    order = sorted(range(len(schema)), key=lambda i: -schema.columns[i].dtype.itemsize)
    pitches: list[int] = []
    places: list[tuple[int, int]] = [(0, 0)] * len(schema)
    packed = [i for i in order if schema.columns[i].nbytes <= packed_at_most]
    if packed:
        offset = 0
        for i in packed:
            places[i] = (0, offset)
            offset += schema.columns[i].nbytes
        align = schema.columns[packed[0]].dtype.itemsize
        pitches.append(-(-offset // align) * align)
    for i in order:
        if i not in packed:
            places[i] = (len(pitches), 0)
            pitches.append(schema.columns[i].nbytes)
    return pitches, places
