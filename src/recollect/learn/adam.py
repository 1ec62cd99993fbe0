"""Adam for stacks (Kingma and Ba 2015): all parameters at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from recollect import _core
from recollect.errors import OptionError
from recollect.learn.parameters import Parameters

__all__ = ["Adam"]


@final
class Adam:
    """Moves networks down their gradient.

    >>> from recollect.learn import Stack
    >>> optimiser = Adam(Stack(1, (2, 1)), rate=0.01)

    Args:
        clip: Longest gradient of one network; 0: any.
    """

    def __init__(
        self,
        nets: Parameters,
        rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        clip: float = 0.0,
    ) -> None:
        self._rate, self._betas, self._eps, self._clip = rate, betas, eps, clip
        self._mean = torch.zeros_like(nets.flat)
        self._square = torch.zeros_like(nets.flat)
        self._arrays = [part.numpy() for part in (nets.flat, nets.grad, self._mean, self._square)]
        self._steps = 0

    def step(self, part: float = 1.0) -> None:
        """One step, of a part of its size."""
        self._steps += 1
        first, second = self._betas
        rate = part * self._rate / (1 - first**self._steps)
        root = math.sqrt(1 - second**self._steps)
        flat, grad, mean, square = self._arrays
        _core.adam(flat, grad, mean, square, rate, root, first, second, self._eps, self._clip)

    def state(self) -> dict[str, Tensor]:
        """Moments and the count of steps."""
        return {"mean": self._mean.clone(), "square": self._square.clone(), "steps": torch.tensor(self._steps)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        if state["mean"].shape != self._mean.shape:
            raise OptionError("moments", f"be of shape {list(self._mean.shape)}", list(state["mean"].shape))
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._steps = int(state["steps"])
