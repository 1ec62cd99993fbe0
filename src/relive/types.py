"""Types of arrays that go in and come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Actions", "Array", "ArrayLike", "Arrays", "Lanes", "Value"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Arrays: TypeAlias = Mapping[str, Array]
"""Fields of all environments by name; those of nested spaces have slashes in theirs."""
Actions: TypeAlias = Mapping[str, ArrayLike] | ArrayLike
"""Actions by field name; a single group's may be given without one."""
Lanes: TypeAlias = ArrayLike | None
"""Lanes by their numbers or a mask; None: all."""
Value: TypeAlias = ArrayLike | SupportsFloat | Mapping[str, Any] | None
"""A field of a step, or fields by their names where they are nested; None as ``final_obs`` where no episode ended."""
