"""Running means and deviations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

__all__ = ["Running"]


@final
class Running:
    """Mean and variance of everything seen so far, by Chan's parallel update, in double precision.

    >>> running = Running((1,))
    >>> running.update(torch.tensor([[1.0], [3.0]]))
    >>> running(torch.tensor([[4.0]]))
    tensor([[2.]])
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0.0
        self.mean = torch.zeros(shape, dtype=torch.float64)
        self.squares = torch.zeros(shape, dtype=torch.float64)
        """The sum of squared distances from the mean."""

    def update(self, values: Tensor) -> None:
        """Take values ``[B, ...]`` in."""
        count = values.shape[0]
        if not count:
            return
        values = values.to(torch.float64)
        mean = values.mean(dim=0)
        total = self.count + count
        away = mean - self.mean
        self.squares += ((values - mean) ** 2).sum(dim=0) + away**2 * (self.count * count / total)
        self.mean += away * (count / total)
        self.count = total

    @property
    def deviation(self) -> Tensor:
        """The standard deviation, 1 before anything was seen."""
        if self.count == 0:
            return torch.ones_like(self.mean)
        return (self.squares / self.count).sqrt().clamp(min=1e-4)

    def __call__(self, values: Tensor, clip: float = 10.0) -> Tensor:
        """Values less the mean, over the deviation, clipped."""
        return ((values - self.mean) / self.deviation).clamp(-clip, clip).to(torch.float32)

    def scale(self, values: Tensor, clip: float = 10.0) -> Tensor:
        """Values over their size, the root of their mean square, clipped: a constant becomes 1 or -1."""
        square = self.mean**2 + self.squares / max(self.count, 1.0)
        return (values / square.sqrt().clamp(min=1e-4)).clamp(-clip, clip).to(torch.float32)

    def state(self) -> dict[str, Tensor]:
        """Everything there is to keep."""
        return {
            "count": torch.tensor(self.count, dtype=torch.float64),
            "mean": self.mean.clone(),
            "squares": self.squares.clone(),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.count = float(state["count"])
        self.mean, self.squares = state["mean"].clone(), state["squares"].clone()
