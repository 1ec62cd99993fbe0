"""Noisy linear layers for exploration (Fortunato et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relive.learn.kernels import ACTIVATIONS

__all__ = ["NoisyLinear", "NoisyMLP", "draw_noise", "without_noise"]


@final
class NoisyLinear(nn.Module):
    """y = (mu_w + sigma_w eps_w) x + mu_b + sigma_b eps_b, with factorised Gaussian noise: equations 9 to 11.

    The noise is zero until ``draw`` is called, and stays fixed until the next call.

    Args:
        sigma: sigma_0: initial standard deviations are sigma_0 / sqrt(inputs).
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, inputs: int, outputs: int, *, sigma: float, generator: torch.Generator | None = None) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound, generator=generator))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.register_buffer("noise_in", torch.zeros(inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(outputs), persistent=False)

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """Resample the noise: f(x) = sgn(x) sqrt(|x|) of standard normal numbers."""
        for noise in (self.noise_in, self.noise_out):
            noise.normal_(generator=generator)
            noise.copy_(noise.sign() * noise.abs().sqrt())

    def clear(self) -> None:
        """Set the noise to zero: the mean weights, until the next ``draw``."""
        self.noise_in.zero_()
        self.noise_out.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """``[..., outputs]`` of ``[..., inputs]``."""
        weight = self.weight + self.weight_sigma * torch.outer(self.noise_out, self.noise_in)
        return F.linear(x, weight, self.bias + self.bias_sigma * self.noise_out)


@final
class NoisyMLP(nn.Module):
    """An MLP of noisy layers: ``[B, in]`` to ``[B, out]``."""

    def __init__(
        self, sizes: Sequence[int], *, activation: str, sigma: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self._activation = ACTIVATIONS[activation]
        self.layers = nn.ModuleList(NoisyLinear(a, b, sigma=sigma, generator=generator) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """``[B, out]``."""
        for index, layer in enumerate(self.layers):
            x = layer(x if index == 0 else self._activation(x))
        return x


def draw_noise(module: nn.Module, generator: torch.Generator) -> None:
    """Resample the noise of all noisy layers in a module."""
    for part in module.modules():
        if isinstance(part, NoisyLinear):
            part.draw(generator)


def without_noise(module: nn.Module) -> None:
    """Set the noise of all noisy layers in a module to zero."""
    for part in module.modules():
        if isinstance(part, NoisyLinear):
            part.clear()
