"""Fields of spaces or shapes, nested as these are, and arrays in the same nests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relive.errors import SchemaError
from relive.schema import Field

__all__ = ["field_of", "field_of_shape", "in_nest"]


def field_of(name: str, space: Any, lead: tuple[int, ...] = ()) -> Any:
    """The field of a Gymnasium space, or of a shape, in the space's own dtype; float64 is kept as float32.

    Args:
        lead: Axes before the space's own.
    """
    inner = getattr(space, "spaces", None)
    if isinstance(inner, Mapping):
        return {key: field_of(f"{name}/{key}", below, lead) for key, below in inner.items()}
    if isinstance(inner, (tuple, list)):
        return tuple(field_of(f"{name}/{i}", below, lead) for i, below in enumerate(inner))
    if isinstance(space, (tuple, list, int, np.integer)):
        return field_of_shape(name, space, lead)
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None:
        remedy = "Use a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple space."
        raise SchemaError(name, "be a space of arrays, or a shape", repr(space), remedy)
    dtype = np.dtype(dtype)
    return Field((*lead, *shape), "float32" if dtype == np.float64 else dtype, role="plain")


def field_of_shape(name: str, shape: Any, lead: tuple[int, ...] = (), dtype: Any = "float32") -> Field:
    """The field of a shape: a tuple, a list or one number."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in sizes):
        raise SchemaError(name, "be a space or a shape of whole numbers", repr(shape))
    return Field((*lead, *sizes), dtype, role="plain")


def in_nest(field: Any, path: str, value: Callable[[str], Any]) -> Any:
    """Values by path, in the nest that a field is."""
    if isinstance(field, Mapping):
        return {key: in_nest(below, f"{path}/{key}", value) for key, below in field.items()}
    if isinstance(field, tuple):
        return tuple(in_nest(below, f"{path}/{i}", value) for i, below in enumerate(field))
    return value(path)
