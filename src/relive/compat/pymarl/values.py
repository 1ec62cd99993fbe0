"""Values on their way into a batch: lists, tuples, arrays and tensors as arrays of one dtype that fit their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from relive.errors import OptionError
from relive.types import Array

__all__ = ["array_of", "as_array", "as_tensor", "fits"]


def array_of(tensor: torch.Tensor) -> Array:
    """A tensor's values as an array; of dtypes that NumPy does not know as float32, which holds them exactly."""
    tensor = tensor.detach().cpu().resolve_neg().resolve_conj()
    try:
        return np.asarray(tensor.numpy())
    except TypeError:
        return np.asarray(tensor.float().numpy())


def as_array(name: str, value: Any, dtype: np.dtype[Any]) -> Array:
    """A value as an array."""
    if isinstance(value, torch.Tensor):
        value = array_of(value)
    if type(value) is np.ndarray:
        if value.dtype == dtype:
            return value
        if dtype.kind in "iu" and value.dtype.kind in "iu" and value.size:
            limits = np.iinfo(dtype)
            if int(value.min()) < limits.min or int(value.max()) > limits.max:
                raise OptionError(name, f"fit {dtype}", f"{value.min()} to {value.max()}")
        with np.errstate(invalid="ignore", over="ignore"):
            return value.astype(dtype)
    try:
        return np.array(value, dtype)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        parts = _stacked(value)
        if parts is None:
            raise OptionError(name, f"be numbers that fit {dtype}", type(value).__name__, str(error)) from None
        return as_array(name, parts, dtype)


def _stacked(value: Any) -> Array | None:
    """A list of tensors, or of lists of them, as one array."""
    if isinstance(value, torch.Tensor):
        return array_of(value)
    if isinstance(value, (list, tuple)):
        parts = [_stacked(part) for part in value]
        shapes = {None if part is None else part.shape for part in parts}
        if len(shapes) == 1 and None not in shapes:
            return np.stack([part for part in parts if part is not None])
    return None


def as_tensor(name: str, value: Any, like: torch.Tensor) -> torch.Tensor:
    """A value as a tensor like another, for batches that arrays cannot share."""
    if not isinstance(value, torch.Tensor):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, RuntimeError):
            array = np.empty(0, object)
        parts = array if array.dtype.kind in "biuf" else _stacked(value)
        if parts is None:
            raise OptionError(name, f"be numbers that fit {like.dtype}", type(value).__name__)
        value = torch.tensor(parts)
    tensor: torch.Tensor = value
    return tensor.detach().to(device=like.device, dtype=like.dtype)


def fits(name: str, shape: tuple[int, ...], place: tuple[int, ...]) -> None:
    """Refuse a shape that cannot be laid over its place without changing what belongs to whom.

    From the last axis to the first, every axis of the place is the value's next one or has length 1.
    """
    if shape == place:
        return
    rest = list(shape)
    for size in reversed(place):
        if rest and rest[-1] == size:
            rest.pop()
        elif size != 1:
            raise OptionError(
                name, f"fit {list(place)}", list(shape), "Give the axes in that order; ones may be missing."
            )
    if any(size != 1 for size in rest):
        raise OptionError(name, f"fit {list(place)}", list(shape), "Give the axes in that order; ones may be missing.")
