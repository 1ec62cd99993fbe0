"""RMSProp for stacks (Tieleman and Hinton 2012): all parameters at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from recollect import _core
from recollect.learn.parameters import Parameters

__all__ = ["RMSProp"]


@final
class RMSProp:
    """Moves networks down their gradient.

    Args:
        decay: What is left of the mean square after a step.
        clip: Longest gradient of one network; 0: any.
    """

    def __init__(
        self, nets: Parameters, rate: float, *, decay: float = 0.99, eps: float = 1e-5, clip: float = 0.0
    ) -> None:
        self._rate, self._decay, self._eps, self._clip = rate, decay, eps, clip
        self._square = torch.zeros_like(nets.flat)
        self._arrays = [part.numpy() for part in (nets.flat, nets.grad, self._square)]

    def step(self, part: float = 1.0) -> None:
        """One step, of a part of its size."""
        flat, grad, square = self._arrays
        _core.rmsprop(flat, grad, square, part * self._rate, self._decay, self._eps, self._clip)

    def state(self) -> dict[str, Tensor]:
        """The mean square."""
        return {"square": self._square.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._square.copy_(state["square"])
