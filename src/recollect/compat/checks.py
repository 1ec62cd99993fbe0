"""Arguments of drop-in buffers, each returned as it is used or refused with its rule."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np

from recollect.errors import OptionError, Problem, StepError
from recollect.memory.steps import value_of
from recollect.schema import Column

__all__ = ["at_least", "flags_of", "index", "plain", "stored"]

Array: TypeAlias = np.ndarray[Any, Any]


def at_least(name: str, value: Any, least: int) -> int:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise OptionError(name, f"be a whole number of at least {least}", repr(value))
    return int(value)


def index(name: str, value: Any, first: int, last: int) -> int:
    """A whole number within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        number = first - 1
    if not first <= number <= last:
        raise OptionError(name, f"be a whole number from {first} to {last}", repr(value))
    return number


def plain(value: Any) -> Any:
    """The value, or the array of a tensor."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def flags_of(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Flags as booleans, given as such or as the numbers 0 and 1."""
    array = np.asarray(plain(value))
    if array.dtype.kind not in "biuf" or array.shape != shape:
        remedy = "Every environment needs its own." if shape else ""
        got = f"{array.dtype}{list(array.shape)}"
        raise StepError((Problem(name, f"be flags of shape {list(shape)}", got, remedy),))
    flags = array.astype(bool)
    if array.dtype.kind != "b" and not (array == flags).all():
        raise StepError((Problem(name, "be 0 or 1", str(array[array != flags].flat[0])),))
    return flags


def stored(name: str, value: Any, shape: tuple[int, ...], dtype: Any, problems: list[Problem]) -> Array | None:
    """A value as it is stored in an array of this shape and dtype; None and a problem if something would be lost."""
    return value_of(name, value, Column(name, shape, np.dtype(dtype), "plain"), (), problems)
