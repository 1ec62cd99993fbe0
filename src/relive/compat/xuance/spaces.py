"""Two small functions that XuanCe's memory modules bring along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive.compat.checks import array
from relive.errors import OptionError, SchemaError
from relive.memory.checks import is_number
from relive.messages import brief

__all__ = ["discount_cumsum", "space2shape"]


def space2shape(observation_space: Any) -> Any:
    """The shape of a space, a dict of them for a dict of spaces; a tuple is one already."""
    inner = getattr(observation_space, "spaces", observation_space)
    if isinstance(inner, Mapping):
        return {key: space2shape(below) for key, below in inner.items()}
    shape = observation_space if isinstance(observation_space, tuple) else getattr(observation_space, "shape", None)
    if not isinstance(shape, tuple):
        raise SchemaError("observation_space", "be a space or a shape", brief(observation_space))
    return shape


def discount_cumsum(x: Any, discount: float = 0.99) -> np.ndarray[Any, Any]:
    """What follows every step, itself included, discounted by its distance."""
    given = array(x)
    if given.dtype.kind not in "biuf" or given.ndim == 0:
        raise OptionError("x", "be numbers, one for each step", brief(x))
    if not is_number(discount):
        raise OptionError("discount", "be a number", brief(discount))
    sums = np.array(given, np.result_type(given.dtype, np.float32))
    for t in range(len(sums) - 2, -1, -1):
        sums[t] += discount * sums[t + 1]
    return sums
