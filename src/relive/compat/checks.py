"""Arguments of drop-in buffers, each returned as it is used or refused with its rule."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np

from relive.errors import OptionError, Problem, StepError
from relive.memory.checks import flag
from relive.memory.steps import value_of
from relive.messages import brief
from relive.schema import Column
from relive.types import Array

__all__ = [
    "NoSuchIndex",
    "array",
    "at_least",
    "flags_of",
    "index",
    "names",
    "per_environment",
    "plain",
    "stored",
    "switch",
    "within",
]


@final
class NoSuchIndex(OptionError, IndexError):
    """An index out of range or of a wrong kind; an IndexError too, as NumPy and PyTorch raise."""


def at_least(name: str, value: Any, least: int) -> int:
    """A whole number that is large enough."""
    whole = isinstance(value, (int, np.integer)) or (isinstance(value, (float, np.floating)) and value == value // 1)
    if isinstance(value, bool) or not whole or not least <= value < 2**62:
        raise OptionError(name, f"be a whole number of at least {least}", repr(value))
    return int(value)


def switch(name: str, value: Any) -> bool:
    """A flag; None counts as False."""
    return False if value is None else flag(name, value)


def per_environment(buffer_size: int, n_envs: int) -> int:
    """Steps of one environment, of a size that counts those of all."""
    if buffer_size % n_envs:
        below = buffer_size // n_envs * n_envs
        nearest = f"The nearest are {below} and {below + n_envs}." if below else f"The least is {n_envs}."
        raise OptionError("buffer_size", f"be a multiple of n_envs ({n_envs})", buffer_size, nearest)
    return buffer_size // n_envs


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


def array(value: Any) -> Array:
    """The value as an array; an empty one of objects if its parts do not form one."""
    try:
        return np.asarray(plain(value))
    except (ValueError, TypeError, RuntimeError):
        return np.empty(0, object)


def names(name: str, value: Any) -> list[Any]:
    """Different names, at least one."""
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else []
    if not found or not all(isinstance(one, (str, int)) for one in found) or len(set(found)) < len(found):
        raise OptionError(name, "be different names, at least one", brief(value))
    return found


def flags_of(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Flags as booleans, given as such or as the numbers 0 and 1."""
    given = array(value)
    if given.dtype.kind not in "biuf" or given.shape != shape:
        remedy = "Every environment needs its own." if shape else ""
        got = f"{given.dtype}{list(given.shape)}"
        raise StepError((Problem(name, f"be flags of shape {list(shape)}", got, remedy),))
    flags = given.astype(bool)
    if given.dtype.kind != "b" and not (given == flags).all():
        raise StepError((Problem(name, "be 0 or 1", str(given[given != flags].flat[0])),))
    return flags


def stored(name: str, value: Any, shape: tuple[int, ...], dtype: Any, problems: list[Problem]) -> Array | None:
    """A value as it is stored in an array of this shape and dtype; None and a problem if something would be lost."""
    return value_of(name, value, Column(name, shape, np.dtype(dtype), "plain"), (), problems)


def within(name: str, space: Any, value: Any) -> None:
    """Refuse actions that a discrete space, or one in a nest of spaces, does not have."""
    inner = getattr(space, "spaces", None)
    if inner is not None:  # what is missing, or not nested alike, is refused when it is stored
        parts = inner if isinstance(inner, Mapping) else dict(enumerate(inner))
        nest = value if isinstance(value, Mapping) else dict(enumerate(value)) if isinstance(value, tuple) else {}
        for key, below in parts.items():
            if key in nest:
                within(f"{name}/{key}", below, nest[key])
        return
    counts = getattr(space, "nvec", getattr(space, "n", None) if getattr(space, "shape", None) == () else None)
    if counts is None:
        return
    first = np.asarray(getattr(space, "start", 0))
    given = array(value)
    if given.dtype.kind not in "iuf" or given.shape[given.ndim - first.ndim :] != first.shape:
        return  # what is stored is checked again, shape by shape
    if first.ndim == 0 and given.size and given.min() >= first and given.max() < first + counts:
        return
    wrong = (given < first) | (given >= first + counts)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        low, high = (np.broadcast_to(bound, given.shape)[at] for bound in (first, first + counts - 1))
        raise StepError((Problem(name, f"be from {low} to {high}", str(given[at])),))
