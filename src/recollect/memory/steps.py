"""Steps on their way in: nested values made flat, odd ones made exact, wrong ones all named at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from recollect.errors import Problem, StepError
from recollect.schema import Column, Schema

__all__ = ["exact", "flatten"]

_FLAGS = ("terminated", "truncated")


def flatten(step: Mapping[str, Any], branches: frozenset[str]) -> dict[str, Any]:
    """The values of a step by path."""
    flat: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if path not in branches:
            flat[path] = value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                walk(inner, f"{path}/{key}")
        elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
            # One entry an environment, None where nothing was seen: Gymnasium's final observations.
            for key in {key for entry in value if entry is not None for key in _keys(entry)}:
                walk(_objects([None if entry is None else entry[key] for entry in value]), f"{path}/{key}")
        elif isinstance(value, (tuple, list)):
            for index, inner in enumerate(value):
                walk(inner, f"{path}/{index}")
        elif value is not None:
            flat[path] = value

    for name, value in step.items():
        walk(value, name)
    return flat


def exact(
    schema: Schema, flat: Mapping[str, Any], *, width: int | None, block: bool
) -> dict[str, np.ndarray[Any, Any]]:
    """The step as arrays of exactly the stored shapes and dtypes.

    Args:
        width: Lanes along the lane axis; None if the values have no such axis.
        block: Whether the values have a leading time axis.

    Raises:
        StepError: With every problem of the step.
    """
    problems: list[Problem] = []
    known = {column.key for column in schema} | {c.final_key for c in schema if c.final_key} | set(_FLAGS)
    names = ", ".join([*(column.key for column in schema), *_FLAGS])
    for key in sorted(set(flat) - known):
        problems.append(Problem(key, f"be one of {names}", "an extra value", "Leave it out or add it to the schema."))
    missing = [key for key in (*(column.key for column in schema), *_FLAGS) if key not in flat]
    problems += [Problem(key, "be given", "nothing") for key in missing]

    lead = _lead(flat, width, block=block)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    flags = [Column(key, (), np.dtype(bool), "plain") for key in _FLAGS]
    for column in (*flags, *schema):
        if column.key in flat:
            value = _value(column.key, flat[column.key], column, lead, problems)
            if value is not None:
                arrays[column.key] = value
    if all(key in arrays for key in _FLAGS):
        arrays |= _finals(schema, flat, arrays, lead, problems, block=block)
    if problems:
        raise StepError(tuple(problems))
    return arrays


def _kind(value: Any) -> str:
    return getattr(getattr(value, "dtype", None), "kind", "")


def _keys(entry: Any) -> Any:
    return entry.keys() if isinstance(entry, Mapping) else range(len(entry))


def _objects(values: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array


def _lead(flat: Mapping[str, Any], width: int | None, *, block: bool) -> tuple[int | None, ...]:
    lead: tuple[int | None, ...] = () if width is None else (width,)
    if not block:
        return lead
    for key in _FLAGS:
        if np.ndim(flat.get(key, 0)) > 0:
            return (len(flat[key]), *lead)
    return (None, *lead)


def _value(
    name: str, value: Any, column: Column, lead: tuple[int | None, ...], problems: list[Problem]
) -> np.ndarray[Any, Any] | None:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    wanted = (*lead, *column.shape)
    shape = f"[{', '.join('T' if n is None else str(n) for n in wanted)}]"
    if array.dtype.kind not in "biuf":
        problems.append(Problem(name, f"be {column.dtype} numbers of shape {shape}", _brief(value)))
        return None
    if array.ndim != len(wanted) or any(n not in (None, m) for n, m in zip(wanted, array.shape, strict=True)):
        remedy = "Every lane needs a value of its own." if array.ndim == len(column.shape) and lead else ""
        problems.append(Problem(name, f"have shape {shape}", str(list(array.shape)), remedy))
        return None
    broken = _misfit(array, column.dtype)
    if broken is not None:
        problems.append(Problem(name, broken[0], broken[1], broken[2]))
        return None
    return np.asarray(array, dtype=column.dtype, order="C")


def _misfit(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> tuple[str, str, str] | None:
    """The rule a value breaks by its dtype or range, what it was, and the remedy."""
    if array.dtype == dtype or array.size == 0:
        return None
    if dtype.kind in "iub" and array.dtype.kind == "f":
        remedy = "Scale and round it yourself, or store it as float32."
        if dtype == np.dtype(bool):
            remedy = "Compare it: value > 0."
        return f"be {'boolean' if dtype.kind == 'b' else 'whole numbers'} ({dtype})", str(array.dtype), remedy
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        for worst in (array.min(), array.max()):
            if not low <= int(worst) <= high:
                return f"fit {dtype} ({low} to {high})", str(worst), "Give the field a wider dtype."
        return None
    if array.dtype.kind in "iu":
        limit = 1 << (np.finfo(dtype).nmant + 1)
        for worst in (array.min(), array.max()):
            if abs(int(worst)) > limit:
                return f"fit {dtype} exactly (up to {limit})", str(worst), "Give the field a wider dtype."
        return None
    with np.errstate(over="ignore"):
        lost = np.isfinite(array) & ~np.isfinite(array.astype(dtype))
    if lost.any():
        return f"fit {dtype}", str(array[lost].flat[0]), "Give the field a wider dtype."
    return None


def _finals(
    schema: Schema,
    flat: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray[Any, Any]],
    lead: tuple[int | None, ...],
    problems: list[Problem],
    *,
    block: bool,
) -> dict[str, np.ndarray[Any, Any]]:
    """What was seen after the last step of every episode that ends here."""
    observed = [column for column in schema if column.final_key is not None]
    ended = arrays["terminated"] | arrays["truncated"]
    needed = arrays["truncated"] & ~arrays["terminated"]
    if schema.loose or not ended.any():
        return {}
    given = [column for column in observed if flat.get(str(column.final_key)) is not None]
    if not given and not needed.any():
        return {}
    finals: dict[str, np.ndarray[Any, Any]] = {}
    for column in observed:
        key = str(column.final_key)
        if column not in given:
            got = f"none although {int(needed.sum())} lanes were truncated" if needed.any() else "none beside others"
            remedy = f"Pass what was really seen after the last step as {key}."
            problems.append(Problem(key, "be given for truncated steps", got, remedy))
            continue
        value: Any = flat[key]
        if not block and (isinstance(value, (list, tuple)) or _kind(value) == "O"):
            value = _dense(key, value, column, arrays.get(column.key), ended, needed, problems)
            if value is None:
                continue
        # A block may bring one final value an ended step instead of one a step.
        count = int(ended.sum())
        compact = block and np.shape(value) == (count, *column.shape)
        array = _value(key, value, column, (count,) if compact else lead, problems)
        if array is not None:
            finals[key] = array
    return finals


def _dense(
    name: str,
    value: Any,
    column: Column,
    seen: np.ndarray[Any, Any] | None,
    ended: np.ndarray[Any, Any],
    needed: np.ndarray[Any, Any],
    problems: list[Problem],
) -> np.ndarray[Any, Any] | None:
    """One entry a lane, None where none is needed, as an array; what was seen last stands in for None."""
    entries = list(value)
    if seen is None or ended.ndim != 1 or len(entries) != len(ended) or not any(entry is None for entry in entries):
        return np.asarray(value.tolist() if isinstance(value, np.ndarray) else value)
    dense = seen.copy()
    for lane, entry in enumerate(entries):
        if entry is None:
            if needed[lane]:
                remedy = "Pass what was really seen after the last step."
                problems.append(Problem(f"{name}[{lane}]", "be given for a truncated step", "None", remedy))
                return None
            continue
        if not ended[lane]:
            continue
        row = _value(f"{name}[{lane}]", entry, column, (), problems)
        if row is None:
            return None
        dense[lane] = row
    return dense


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
