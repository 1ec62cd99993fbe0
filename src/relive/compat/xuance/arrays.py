"""XuanCe's three functions on plain arrays, and assignment to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive.compat.checks import NoSuchIndex, array, at_least, index, stored
from relive.errors import OptionError, Problem, StepError
from relive.messages import brief

__all__ = ["assign", "create_memory", "sample_batch", "store_element"]


def create_memory(shape: Any, n_envs: int, n_size: int, dtype: Any = np.float32) -> Any:
    """Zeros ``[n_envs, n_size, *shape]``, in the nest of dicts and tuples that the shapes are in.

    Args:
        shape: A shape; a dict or tuple of shapes, to any depth, where None in a dict makes room for objects; or None.
    """
    n_envs, n_size = at_least("n_envs", n_envs, 1), at_least("n_size", n_size, 1)
    if shape is None:
        return None
    if isinstance(shape, Mapping):
        return {
            key: np.zeros((n_envs, n_size), object) if inner is None else create_memory(inner, n_envs, n_size, dtype)
            for key, inner in shape.items()
        }
    if isinstance(shape, list):
        shape = tuple(shape)
    if isinstance(shape, tuple) and all(isinstance(n, (int, np.integer)) for n in shape):
        try:
            return np.zeros((n_envs, n_size, *shape), dtype)
        except (ValueError, TypeError) as error:
            raise OptionError("shape", "be a shape of whole numbers, with a dtype of numbers", error) from None
    if isinstance(shape, tuple):
        return tuple(create_memory(inner, n_envs, n_size, dtype) for inner in shape)
    raise OptionError("shape", "be a tuple, a nest of dicts and tuples of them, or None", repr(shape))


def store_element(data: Any, memory: Any, ptr: int) -> None:
    """Put one step of all environments, ``[n_envs, ...]`` or one number for all, into slot ``ptr``; None is no step.

    Raises:
        StepError: If anything does not fit. Nothing is stored then.
    """
    if data is None:
        return
    problems: list[Problem] = []
    ready: list[tuple[Any, Any]] = []
    for name, value, target in _pairs("data", data, memory, problems):
        ptr = index("ptr", ptr, -target.shape[1], target.shape[1] - 1)
        shape = (target.shape[0], *target.shape[2:])
        given = array(value)
        if given.ndim == 0 and given.dtype != object:
            value = np.full(shape, given)  # one for all, as theirs takes it
        if target.dtype != object:
            ready.append((target, stored(name, value, shape, target.dtype, problems)))
        elif value.shape != shape:
            problems.append(Problem(name, f"have shape {list(shape)}", str(list(value.shape))))
        else:
            ready.append((target, value))
    if problems:
        raise StepError(tuple(problems))
    for target, value in ready:
        target[:, ptr] = value


def sample_batch(memory: Any, index: Any) -> Any:
    """What lies at an index, such as (environments, slots), in the nest that the memory is."""
    if memory is None:
        return None
    if isinstance(memory, Mapping):
        return {key: sample_batch(inner, index) for key, inner in memory.items()}
    if isinstance(memory, tuple):
        return tuple(sample_batch(inner, index) for inner in memory)
    if not isinstance(memory, np.ndarray):
        raise OptionError("memory", "be an array, or a nest of dicts and tuples of them", brief(memory))
    try:
        return memory[index]
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise NoSuchIndex("index", f"fit an array of shape {list(memory.shape)}", error) from None


def assign(name: str, target: Any, value: Any) -> None:
    """Write values into arrays of the same shapes, in the nest that the target is."""
    if isinstance(target, Mapping):
        for key, inner in target.items():
            assign(f"{name}/{key}", inner, value[key])
    elif isinstance(target, tuple):
        for place, inner in enumerate(target):
            assign(f"{name}/{place}", inner, value[place])
    else:
        given = np.asarray(value)
        if given.shape != target.shape:
            raise OptionError(name, f"have shape {list(target.shape)}", list(given.shape))
        target[...] = given


def _pairs(name: str, data: Any, memory: Any, problems: list[Problem]) -> list[tuple[str, Any, Any]]:
    """Every array of the data beside the one it goes to."""
    if isinstance(memory, (Mapping, tuple)):
        inside = dict(memory) if isinstance(memory, Mapping) else dict(enumerate(memory))
        given = dict(data) if isinstance(data, Mapping) else dict(enumerate(data)) if isinstance(data, tuple) else {}
        for key in [key for key in inside if key not in given] + [key for key in given if key not in inside]:
            problems.append(Problem(f"{name}/{key}", "be in both data and memory", "one of them"))
        return [
            pair
            for key, inner in inside.items()
            if key in given
            for pair in _pairs(f"{name}/{key}", given[key], inner, problems)
        ]
    if memory is None:
        problems.append(Problem(name, "have a memory to go to", "None"))
        return []
    if not isinstance(memory, np.ndarray) or memory.ndim < 2:
        problems.append(Problem(name, "have an array [n_envs, n_size, ...] to go to", brief(memory)))
        return []
    if memory.dtype == object:
        value = np.empty(len(data), object)
        value[:] = list(data)
        return [(name, value, memory)]
    return [(name, data, memory)]
