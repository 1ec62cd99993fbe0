"""Types of arrays that go in and come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Array", "ArrayLike", "Lanes", "Value"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Lanes: TypeAlias = ArrayLike | None
"""Lanes by their numbers or a mask; None: all."""
Value: TypeAlias = ArrayLike | Mapping[str, Any]
"""A field of a step, or fields by their names where they are nested."""
