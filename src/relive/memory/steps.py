"""Validation of appended steps: flattened, converted to stored dtypes, all problems reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np

from relive.errors import Problem, StepError
from relive.memory.checks import is_masked
from relive.messages import brief
from relive.schema import Column, Schema
from relive.types import Array

__all__ = ["exact", "flatten", "value_of"]


_FLAGS = ("terminated", "truncated")


@final
class _PerLane(list[Any]):
    """One value a lane, None where there is none: Gymnasium's form of final observations."""


def flatten(step: Mapping[str, Any], branches: frozenset[str]) -> dict[str, Any]:
    """The values of a step by path."""
    flat: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if path not in branches:
            flat[path] = value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                walk(inner, f"{path}/{key}")
        elif _is_per_lane(value):
            for key in dict.fromkeys(key for entry in value if entry is not None for key in _keys(entry)):
                walk(_PerLane(_part(entry, key) for entry in value), f"{path}/{key}")
        elif isinstance(value, (tuple, list)):
            for index, inner in enumerate(value):
                walk(inner, f"{path}/{index}")
        elif value is not None:
            flat[path] = value

    for name, value in step.items():
        walk(value, name)
    return flat


def exact(schema: Schema, flat: Mapping[str, Any], *, width: int | None, block: bool) -> dict[str, Array]:
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
    arrays: dict[str, Array] = {}
    flags = [Column(key, (), np.dtype(bool), "plain") for key in _FLAGS]
    for column in (*flags, *schema):
        if column.key in flat:
            value = value_of(column.key, flat[column.key], column, lead, problems)
            if value is not None:
                arrays[column.key] = value
    for key in _FLAGS:  # copied, so that another thread cannot change flags between check and write
        if key in arrays:
            arrays[key] = arrays[key].copy()
    if all(key in arrays for key in _FLAGS):
        arrays |= _finals(schema, flat, arrays, problems, block=block)
    if problems:
        raise StepError(tuple(problems))
    return arrays


def _is_per_lane(value: Any) -> bool:
    if isinstance(value, _PerLane):
        return True
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and all(entry is None or isinstance(entry, (Mapping, tuple, list)) for entry in value)
    return isinstance(value, (list, tuple)) and all(entry is None or isinstance(entry, Mapping) for entry in value)


def _keys(entry: Any) -> Iterable[Any]:
    return entry if isinstance(entry, Mapping) else range(len(entry))


def _part(entry: Any, key: Any) -> Any:
    if isinstance(entry, Mapping):
        return entry.get(key)
    return entry[key] if entry is not None and key < len(entry) else None


def _lead(flat: Mapping[str, Any], width: int | None, *, block: bool) -> tuple[int | None, ...]:
    lead: tuple[int | None, ...] = () if width is None else (width,)
    if not block:
        return lead
    for key in _FLAGS:
        if np.ndim(flat.get(key, 0)) > 0:
            return (len(flat[key]), *lead)
    return (None, *lead)


def _array(value: Any) -> Array | None:
    """The value as a numeric array, if it is one."""
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (ValueError, TypeError, RuntimeError):
        return None
    return array if array.dtype.kind in "biuf" else None


def value_of(
    name: str, value: object, column: Column, lead: tuple[int | None, ...], problems: list[Problem]
) -> Array | None:
    """A value in the stored shape and dtype; None, and one more problem, if it does not fit without loss."""
    if is_masked(value):
        problems.append(Problem(name, "have no masked values", "some", "Fill them: value.filled(0)."))
        return None
    array = _array(value)
    expected = (*lead, *column.shape)
    shape = f"[{', '.join('T' if n is None else str(n) for n in expected)}]"
    if array is None:
        problems.append(Problem(name, f"be {column.dtype} numbers of shape {shape}", brief(value)))
        return None
    if array.ndim != len(expected) or any(n not in (None, m) for n, m in zip(expected, array.shape, strict=True)):
        remedy = "Every lane needs a value of its own." if array.ndim == len(column.shape) and lead else ""
        problems.append(Problem(name, f"have shape {shape}", str(list(array.shape)), remedy))
        return None
    broken = _misfit(array, column.dtype)
    if broken is not None:
        problems.append(Problem(name, *broken))
        return None
    return np.require(array, column.dtype, ["C", "A"])


def _misfit(array: Array, dtype: np.dtype[Any]) -> tuple[str, str, str] | None:
    """The rule that a value's dtype or range breaks, the value, and the remedy."""
    if array.dtype == dtype or array.size == 0:
        return None
    wider = "Give the field a wider dtype."
    compare = "Compare it: value > 0."
    if dtype.kind == "b":
        if array.dtype.kind == "f":
            return "be boolean (bool)", str(array.dtype), compare
        worst = max(array.min(), array.max(), key=lambda n: abs(int(n)))
        return None if int(array.min()) >= 0 and int(array.max()) <= 1 else ("be 0 or 1", str(worst), compare)
    if dtype.kind in "iu":
        if array.dtype.kind == "f":
            broken = ~(np.isfinite(array) & (array == np.floor(array)))
            if broken.any():
                remedy = "Scale and round it yourself, or store it as float32."
                return f"be whole numbers ({dtype})", str(array[broken].flat[0]), remedy
        limits = np.iinfo(dtype)
        for worst in (array.min(), array.max()):
            if not limits.min <= int(worst) <= limits.max:
                return f"fit {dtype} ({limits.min} to {limits.max})", str(worst), wider
        return None
    if array.dtype.kind in "iu":
        limit = 1 << (np.finfo(dtype).nmant + 1)
        for worst in (array.min(), array.max()):
            if abs(int(worst)) > limit:
                return f"fit {dtype} exactly (up to {limit})", str(worst), wider
        return None
    with np.errstate(over="ignore"):
        lost = np.isfinite(array) & ~np.isfinite(array.astype(dtype))
    return (f"fit {dtype}", str(array[lost].flat[0]), wider) if lost.any() else None


def _finals(
    schema: Schema, flat: Mapping[str, Any], arrays: Mapping[str, Array], problems: list[Problem], *, block: bool
) -> dict[str, Array]:
    """Final observations of the episodes that end here: for a block a row each, else a row a lane."""
    observed = [column for column in schema if column.final_key is not None]
    ended = arrays["terminated"] | arrays["truncated"]
    needed = arrays["truncated"] & ~arrays["terminated"]
    given = {column.key for column in observed if flat.get(str(column.final_key)) is not None}
    if schema.loose or not ended.any() or (not given and not needed.any()):
        return {}
    finals: dict[str, Array] = {}
    for column in observed:
        key = str(column.final_key)
        if column.key not in given:
            rule = "be given where a step is truncated" if needed.any() else "be given if other final fields are"
            remedy = f"Pass what was really seen after the last step as {key}."
            problems.append(Problem(key, rule, "none", remedy))
            continue
        seen = arrays.get(column.key)
        if seen is None:
            continue
        rows = _ended_rows(key, flat[key], column, seen, ended, needed, problems, block=block)
        if rows is not None:
            finals[key] = rows
            if not block:
                finals[key] = seen.copy()
                finals[key][ended] = rows
    return finals


def _ended_rows(
    name: str,
    value: Any,
    column: Column,
    seen: Array,
    ended: Array,
    needed: Array,
    problems: list[Problem],
    *,
    block: bool,
) -> Array | None:
    """One final value for each ended step, in order; values of other steps are ignored."""
    count = int(ended.sum())
    if is_masked(value):  # perhaps only where steps did not end
        shaped = value.shape == (*ended.shape, *column.shape)
        return value_of(name, value[ended] if shaped else value, column, (count,), problems)
    entries = value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "O" else value
    if not block and ended.ndim == 1 and isinstance(entries, (list, tuple)) and len(entries) == len(ended):
        rows: list[Array] = []
        for lane in np.flatnonzero(ended):
            if entries[lane] is None and not needed[lane]:
                rows.append(seen[lane])
                continue
            row = value_of(f"{name}[{lane}]", entries[lane], column, (), problems)
            if row is None:
                return None
            rows.append(row)
        return np.stack(rows)
    array = _array(entries)
    if array is not None and array.shape == (*ended.shape, *column.shape):
        return value_of(name, array[ended], column, (count,), problems)
    if array is not None and block and array.shape == (count, *column.shape):
        return value_of(name, array, column, (count,), problems)
    return value_of(name, entries, column, ended.shape, problems)
