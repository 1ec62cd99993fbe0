"""What may stand between the brackets: episodes, and times that follow one another."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np
import torch

from relive.compat.checks import NoSuchIndex
from relive.messages import brief

__all__ = ["Some", "counted", "parsed"]

Some: TypeAlias = slice | torch.Tensor
"""A slice of episodes or times, or their numbers as an int64 tensor."""


def parsed(item: Any, episodes: int, steps: int) -> tuple[Some, Some]:
    """The episodes and times that an index means.

    Raises:
        NoSuchIndex: If it means none.
    """
    pair = isinstance(item, tuple)
    if pair and len(item) > 2:
        raise NoSuchIndex("index", "be episodes, or episodes and times", f"{len(item)} parts")
    which, when = (*item, slice(None), slice(None))[:2] if pair else (item, slice(None))
    return _which(which, episodes), _when(when, steps)


def counted(which: Some, length: int) -> int:
    """How many, of a number of them, are meant."""
    return len(range(*which.indices(length))) if isinstance(which, slice) else len(which)


def _number(value: Any) -> int | None:
    """A whole number, also as a tensor or array with one element; None if it is none."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        whole = value.dtype.kind in "iu" if isinstance(value, np.ndarray) else _is_whole(value)
        return int(value.reshape(())) if whole and value.reshape(-1).shape[0] == 1 else None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _is_whole(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _one(number: int, length: int, what: str) -> slice:
    if not -length <= number < length:
        raise NoSuchIndex(what, f"be from {-length} to {length - 1}", number)
    number %= length
    return slice(number, number + 1)


def _plain(part: slice) -> slice:
    ends = []
    for end in (part.start, part.stop, part.step):
        number = None if end is None else _number(end)
        if end is not None and number is None:
            raise NoSuchIndex("slice", "have ends that are whole numbers", brief(end))
        ends.append(number)
    if ends[2] is not None and ends[2] < 1:
        raise NoSuchIndex("slice", "have a step of at least 1", ends[2])
    return slice(*ends)


def _which(item: Any, length: int, what: str = "an episode") -> Some:
    if isinstance(item, slice):
        return _plain(item)
    if isinstance(item, int) and not isinstance(item, bool):
        return _one(item, length, what)
    array = _tensor(item)
    if array.ndim == 0 and _is_whole(array):
        return _one(int(array), length, what)
    if array.ndim == 1 and array.dtype == torch.bool and len(array) == length:
        return torch.nonzero(array)[:, 0]
    if array.ndim == 1 and len(array) == 0:
        return torch.zeros(0, dtype=torch.long)
    if array.ndim != 1 or not _is_whole(array):
        rule = f"be whole numbers [n] or a mask [{length}]"
        raise NoSuchIndex("episodes", rule, f"{array.dtype}{list(array.shape)}")
    array = array.long()
    if array.min() < -length or array.max() >= length:
        worst = int(array.min() if array.min() < -length else array.max())
        raise NoSuchIndex(what, f"be from {-length} to {length - 1}", worst)
    return torch.where(array < 0, array + length, array)


def _tensor(item: Any) -> torch.Tensor:
    if isinstance(item, torch.Tensor):
        return item.detach().cpu()
    try:
        array = np.asarray(item)
        kind = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}[array.dtype.kind]
    except (ValueError, KeyError):
        raise NoSuchIndex("episodes", "be numbers, a slice or a mask", brief(item)) from None
    return torch.from_numpy(np.array(array, kind))


def _when(item: Any, length: int) -> Some:
    if isinstance(item, slice):
        return _plain(item)
    if isinstance(item, (np.ndarray, torch.Tensor)) and item.ndim == 1 and len(item) > 1:
        return _which(item, length, "a time")
    number = None if isinstance(item, (list, bool)) else _number(item)
    if number is None:
        raise NoSuchIndex("times", "be a number, or a slice of times that follow one another", brief(item))
    return _one(number, length, "a time")
