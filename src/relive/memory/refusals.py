"""Errors of rows that cannot be drawn or read."""

from __future__ import annotations

from relive.errors import NotEnoughRows, StaleRows
from relive.types import Array

__all__ = ["not_enough", "stale"]


def not_enough(size: int, available: int, steps: int, span: int) -> NotEnoughRows:
    """The error of a batch with too few rows; ``available`` is -1 if writers overtook the reader."""
    if available < 0:
        return NotEnoughRows(
            "capacity",
            "give lanes more rows than writers overwrite while a batch is read",
            f"{span} rows a lane",
            "Make the memory larger or the batch smaller.",
        )
    if available == 0:
        return NotEnoughRows(
            "memory",
            "hold a complete window to be sampled",
            f"{steps} steps and none complete",
            "Append more: a step is complete once the next observation is known.",
        )
    return NotEnoughRows(
        "size", f"be at most {available}, the rows that can be drawn without replacement", size, "Draw fewer."
    )


def stale(place: int, lane: int, serial: int, tails: Array, heads: Array) -> StaleRows:
    """The error of a row that cannot be read by its serial."""
    known = 0 <= lane < len(heads)
    return StaleRows(
        f"row {place} (lane {lane}, serial {serial})",
        "be one that a window can begin at",
        f"serials {tails[lane]} to {heads[lane] - 1} in that lane" if known else "no such lane",
        "Rows are overwritten in time; closing rows and rows still being written cannot be read.",
    )
