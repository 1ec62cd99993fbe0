"""Losses as pure functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["TD_LOSSES", "huber", "squared"]


def squared(td_error: Tensor) -> Tensor:
    """The square of temporal-difference errors."""
    return td_error.square()


def huber(td_error: Tensor) -> Tensor:
    """Half the square up to 1, beyond that a straight line.

    >>> huber(torch.tensor([0.5, -3.0])).tolist()
    [0.125, 2.5]
    """
    return F.huber_loss(td_error, torch.zeros_like(td_error), reduction="none")


TD_LOSSES: dict[str, Callable[[Tensor], Tensor]] = {"mse": squared, "huber": huber}
"""Losses of temporal-difference errors by name."""
