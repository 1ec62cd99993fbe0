"""What optimisers and targets need of networks: all parameters in one tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Parameters", "shorten"]


class Parameters(Protocol):
    """Networks side by side."""

    flat: Tensor
    """Parameters ``[count, P]``."""
    grad: Tensor
    """Their gradients."""


def shorten(nets: Iterable[Parameters], longest: float) -> float:
    """Scale the gradients of several networks together, so that all of them as one are no longer; returns their length.

    Args:
        longest: 0 leaves them as they are.
    """
    every = list(nets)
    length = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each.grad) for each in every])))
    if 0 < longest < length:
        for each in every:
            each.grad.mul_(longest / length)
    return length
