"""The newest steps of a memory, without a window."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive import _core
from relive.memory.batch import Batch, nested
from relive.schema import Schema

__all__ = ["newest"]

_CLOSING = 4  # core/memory/rows.hpp


def newest(store: _core.Store, schema: Schema, size: int) -> Batch:
    """Fields of the newest ``size`` steps of all lanes, or of as many as there are; closing rows are left out."""
    tails, heads = store.heads()
    flags, columns = store.flags(), list(schema.columns)
    lanes, span = flags.shape
    each = min(-(-size // lanes) * 2 + 1, span)  # an episode of one step has a closing row
    while True:
        age = np.arange(each)[:, None]
        serials = heads - 1 - age
        there = serials >= np.maximum(tails, heads - span)
        there &= (flags[np.arange(lanes), serials % span] & _CLOSING) == 0
        when, lane = np.nonzero(there)  # the newest of every lane first
        if len(when) >= size or each == span:
            break
        each = min(2 * each, span)
    when, lane = when[:size], lane[:size]
    slots = serials[when, lane] % span
    found: dict[str, Any] = {column.key: store.view(index, False)[lane, slots] for index, column in enumerate(columns)}
    return nested({**found, "lanes": lane, "serials": serials[when, lane]})
