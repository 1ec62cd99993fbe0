"""Two small functions that XuanCe's memory modules bring along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["discount_cumsum", "space2shape"]


def space2shape(observation_space: Any) -> Any:
    """The shape of a space, a dict of them for a dict of spaces; a tuple is one already."""
    inner = getattr(observation_space, "spaces", observation_space)
    if isinstance(inner, Mapping):
        return {key: below.shape for key, below in inner.items()}
    return observation_space if isinstance(observation_space, tuple) else observation_space.shape


def discount_cumsum(x: Any, discount: float = 0.99) -> np.ndarray[Any, Any]:
    """What follows every step, itself included, discounted by its distance."""
    sums = np.array(x, np.result_type(np.asarray(x).dtype, np.float32))
    for t in range(len(sums) - 2, -1, -1):
        sums[t] += discount * sums[t + 1]
    return sums
