"""Validation of a memory's arguments: each is returned in the form that is used, or refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relive.errors import OptionError, PriorityError
from relive.messages import brief
from relive.schema import Schema

__all__ = [
    "finite",
    "flag",
    "frame_counts",
    "host",
    "is_masked",
    "is_number",
    "key",
    "lane_count",
    "path",
    "real",
    "row_count",
    "row_names",
    "rows",
    "some_lanes",
    "whole",
]

_MOST_BYTES = 1 << 46


def row_names(batch: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Lanes and serials of a batch's rows, ``[B]`` each."""
    try:
        lanes, serials = host("lanes", batch["lanes"]), host("serials", batch["serials"])
    except (KeyError, TypeError, IndexError):
        remedy = "Pass the batch that sample returned."
        raise PriorityError("batch", "have lanes and serials", type(batch).__name__, remedy) from None
    if lanes.shape != serials.shape or lanes.ndim != 1 or lanes.dtype != np.int64 or serials.dtype != np.int64:
        for name, array in (("lanes", lanes), ("serials", serials)):
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise PriorityError(f"batch.{name}", "be whole numbers [B]", f"{array.dtype}{list(array.shape)}")
        if lanes.size != serials.size:
            raise PriorityError("batch", "have as many lanes as serials", f"{lanes.size} and {serials.size}")
    return lanes, serials


def finite(errors: np.ndarray[Any, Any], lanes: Any, serials: Any) -> np.ndarray[Any, Any]:
    """Errors as finite float64, one for each row."""
    if errors.shape != serials.shape or serials.ndim != 1 or errors.dtype.kind not in "fiub":
        rule = f"be numbers of shape {list(serials.shape)}"
        raise PriorityError("errors", rule, f"{errors.dtype}{list(errors.shape)}")
    with np.errstate(over="ignore"):
        values = errors.astype(np.float64)
    bad = ~np.isfinite(values)  # also what overflows float64
    if bad.any():
        row = int(bad.argmax())
        where = f"row {row} (lane {lanes[row]}, serial {serials[row]})"
        raise PriorityError("errors", "be finite", f"{errors[row]} at {where}", "No priority was changed.")
    return values


def host(name: str, values: Any) -> np.ndarray[Any, Any]:
    """Values as an array; tensors of any device and float type too."""
    if type(values) is np.ndarray:
        return values
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point():
            values = values.double()  # NumPy has no bfloat16
    if is_masked(values):
        raise OptionError(name, "have no masked values", "some", "Fill them: values.filled(0).")
    try:
        return np.asarray(values)
    except ValueError:
        raise OptionError(name, "be an array", brief(values)) from None


def key(seed: int | None) -> tuple[int, int]:
    """The generator's key for a seed; a random one for None."""
    if seed is not None:
        seed = whole("seed", seed, 0, 2**128)
    first, second = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return int(first), int(second)


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number within bounds; 1e6 is one."""
    if not is_number(value) or not low <= value <= high or int(value) != value:
        raise OptionError(name, f"be a whole number from {low} to {high}", brief(value))
    return int(value)


def real(name: str, value: Any, low: float, high: float) -> float:
    """A number within bounds."""
    if not is_number(value) or not low <= value <= high:
        raise OptionError(name, f"be a number from {low:g} to {high:g}", brief(value))
    return float(value)


def is_masked(value: object) -> bool:
    """Whether a masked array has masked values.

    ``np.ma`` is not imported here: that takes an import lock, and whoever has not imported it has no masked arrays.
    """
    masked = sys.modules.get("numpy.ma")
    return type(value) is not np.ndarray and masked is not None and bool(masked.is_masked(value))


def flag(name: str, value: object) -> bool:
    """True or false; 0 and 1 are taken."""
    if not isinstance(value, (bool, np.bool_, int, np.integer)) or value not in (0, 1):
        raise OptionError(name, "be True or False", brief(value))
    return bool(value)


def is_number(value: object) -> bool:
    """Whether something is one real number."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def lane_count(lanes: int | None) -> int:
    """How many lanes; None is one."""
    return 1 if lanes is None else whole("lanes", lanes, 1, 2**31)


def row_count(capacity: object, lanes: int, row_nbytes: int) -> int:
    """Rows in all, as many in every lane."""
    capacity = whole("capacity", capacity, 2 * lanes, max(2 * lanes, _MOST_BYTES // row_nbytes))
    if capacity % lanes:
        below = capacity // lanes * lanes
        raise OptionError(
            "capacity", f"be a multiple of lanes ({lanes})", capacity, f"The nearest are {below} and {below + lanes}."
        )
    return int(capacity)


def path(name: str, value: object) -> Path:
    """A path that is not empty: an empty one would be the current folder."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or "\0" in os.fsdecode(value):
        raise OptionError(name, "be a path", brief(value))
    return Path(value)


def frame_counts(schema: Schema, stack: Mapping[str, int]) -> dict[str, int]:
    """Frames to stack by name of an observed field."""
    if not isinstance(stack, Mapping):
        raise OptionError("stack", "be frames by name of a field", brief(stack), "Such as {'obs': 4}.")
    observed = [column.key for column in schema if column.role == "observed"]
    for name, frames in stack.items():
        if not any(key == name or key.startswith(f"{name}/") for key in observed):
            raise OptionError("stack", f"name observed fields ({', '.join(observed)})", repr(name))
        whole(f"stack[{name!r}]", frames, 1, 1 << 16)
    if stack and schema.loose:
        raise OptionError(
            "stack", "be used with a schema without next fields", ", ".join(stack), "Let windows find what follows."
        )
    return {name: int(frames) for name, frames in stack.items()}


def some_lanes(lanes: Any, count: int) -> Any:
    """Lanes as an int or an int64 array."""
    rule = f"be distinct whole numbers from 0 to {count - 1}"
    try:
        array = np.asarray(lanes)
    except ValueError:
        raise OptionError("lanes", rule, brief(lanes)) from None
    if array.dtype.kind == "b" and array.shape == (count,):
        array = np.flatnonzero(array)
    if array.size == 0 and array.ndim == 1:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise OptionError("lanes", rule, repr(lanes))
    if array.size and (array.min() < 0 or array.max() >= count or np.unique(array).size != array.size):
        raise OptionError("lanes", rule, repr(lanes))
    return int(array) if array.ndim == 0 else array.astype(np.int64)


def rows(lanes: Any, serials: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Lanes and serials of rows, equally many."""
    which, where = np.atleast_1d(host("serials", serials)), np.atleast_1d(host("lanes", lanes))
    for name, array in (("lanes", where), ("serials", which)):
        if array.dtype.kind not in "iu" or array.ndim != 1 or array.size == 0:
            raise OptionError(name, "be whole numbers [n]", f"{array.dtype}{list(array.shape)}")
    if where.size not in (1, which.size):
        raise OptionError("lanes", f"be one or as many as serials ({which.size})", where.size)
    return np.broadcast_to(where.astype(np.int64), which.shape), which.astype(np.int64)
