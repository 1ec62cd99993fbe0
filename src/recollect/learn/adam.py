"""Adam for stacks (Kingma and Ba 2015): all parameters at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from recollect.learn.stack import Stack

__all__ = ["Adam"]


@final
class Adam:
    """Moves a stack down its gradient.

    >>> stack = Stack(1, (2, 1))
    >>> optimiser = Adam(stack, rate=0.01)
    """

    def __init__(
        self, stack: Stack, rate: float, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        self._stack, self._rate, self._betas, self._eps = stack, rate, betas, eps
        self._mean = torch.zeros_like(stack.flat)
        self._square = torch.zeros_like(stack.flat)
        self._steps = 0

    def step(self) -> None:
        """One step."""
        grad, (first, second) = self._stack.grad, self._betas
        self._steps += 1
        self._mean.lerp_(grad, 1 - first)
        self._square.mul_(second).addcmul_(grad, grad, value=1 - second)
        root = math.sqrt(1 - second**self._steps)
        spread = self._square.sqrt().div_(root).add_(self._eps)
        self._stack.flat.addcdiv_(self._mean, spread, value=-self._rate / (1 - first**self._steps))

    def state(self) -> dict[str, Tensor]:
        """Moments and the count of steps."""
        return {"mean": self._mean.clone(), "square": self._square.clone(), "steps": torch.tensor(self._steps)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._steps = int(state["steps"])
