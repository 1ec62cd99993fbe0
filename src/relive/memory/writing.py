"""Appending of validated steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive import _core
from relive.memory.checks import some_lanes
from relive.memory.steps import exact, flatten
from relive.schema import Schema

__all__ = ["write"]


def write(
    store: _core.Store, schema: Schema, step: dict[str, Any], lanes: Any, *, count: int, bare: bool, block: bool
) -> None:
    """Append a step, or a block of steps, to lanes: numbers, a mask, or None for all.

    Args:
        count: Lanes that there are.
        bare: Whether values for all lanes have no lane axis.

    Raises:
        StepError: With every problem of the step. Nothing is stored.
    """
    if schema.branches:
        step = flatten(step, schema.branches)
    if lanes is not None and type(lanes) is not int and getattr(lanes, "dtype", None) != np.int64:
        lanes = some_lanes(lanes, count)
    if store.append(step, lanes, block):
        return
    width = None if bare else count
    if lanes is not None:  # copied, so that another thread cannot change lanes between check and write
        lanes = some_lanes(lanes.copy() if isinstance(lanes, np.ndarray) else lanes, count)
        width = None if isinstance(lanes, int) else len(lanes)
    flat = step if schema.branches else flatten(step, schema.branches)
    if not store.append(exact(schema, flat, width=width, block=block), lanes, block):
        raise RuntimeError("the core refused a step that was found to be right; please report this")
