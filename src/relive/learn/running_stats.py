"""Normalisation by a running mean and standard deviation."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

__all__ = ["RunningMeanStd"]


@final
class RunningMeanStd(nn.Module):
    """The mean and variance of all values so far, by Chan's parallel update, in double precision.

    >>> rms = RunningMeanStd((1,))
    >>> rms.update(torch.tensor([[1.0], [3.0]]))
    >>> rms(torch.tensor([[4.0]]))
    tensor([[2.]])
    """

    count: Tensor
    mean: Tensor
    m2: Tensor

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("m2", torch.zeros(shape, dtype=torch.float64))

    @torch.no_grad()
    def update(self, values: Tensor, mask: Tensor | None = None) -> None:
        """Update the statistics with values ``[..., *shape]``.

        Args:
            mask: Which values count, ``[...]``.
        """
        values = values.reshape(-1, *self.mean.shape).to(self.mean.dtype)
        weights = torch.ones(len(values), dtype=values.dtype, device=values.device)
        if mask is not None:
            weights = mask.reshape(-1).to(values.dtype)
        weights = weights.reshape(-1, *(1,) * self.mean.dim())
        count = weights.sum()
        mean = (values * weights).sum(dim=0) / count.clamp(min=1)
        total = (self.count + count).clamp(min=1)
        delta = mean - self.mean
        self.m2 += ((values - mean).square() * weights).sum(dim=0) + delta.square() * (self.count * count / total)
        self.mean += delta * (count / total)
        self.count += count

    @property
    def std(self) -> Tensor:
        """The standard deviation; 1 before the first update."""
        std = (self.m2 / self.count.clamp(min=1)).sqrt().clamp(min=1e-4)
        return torch.where(self.count > 0, std, torch.ones_like(std))

    def forward(self, values: Tensor, clip: float = 10.0) -> Tensor:
        """(values - mean) / std, clipped."""
        return ((values - self.mean) / self.std).clamp(-clip, clip).to(torch.float32)

    def scale(self, values: Tensor, clip: float = 10.0) -> Tensor:
        """Values over their root mean square, clipped: a constant becomes 1 or -1."""
        square = self.mean.square() + self.m2 / self.count.clamp(min=1)
        return (values / square.sqrt().clamp(min=1e-4)).clamp(-clip, clip).to(torch.float32)
