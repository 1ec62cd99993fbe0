"""Value normalisation by running statistics of returns, with or without PopArt."""

from __future__ import annotations

from typing import Literal, final

import torch
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn.agent_networks import AgentNetworks
from relive.learn.running_stats import RunningMeanStd

__all__ = ["ValueNorm"]


@final
class ValueNorm(nn.Module):
    """Converts between a critic's normalised outputs and values.

    Args:
        kind: ``"none"``; ``"running"``: outputs are (value - mean) / std; ``"popart"``: and the last layer is rescaled
            when the statistics change, so that values are preserved (van Hasselt et al. 2016).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, kind: Literal["none", "running", "popart"], critic: AgentNetworks) -> None:
        super().__init__()
        if kind == "popart" and not critic.last_layer:
            raise OptionError("value_norm", "not be popart with a custom network", repr(kind))
        self.rms = None if kind == "none" else RunningMeanStd()
        self.register_buffer("mean", torch.zeros(()))  # of the running statistics, in the critic's precision
        self.register_buffer("std", torch.ones(()))
        self._rescales = kind == "popart"
        self._before = (self.mean, self.std)

    @torch.no_grad()
    def update(self, returns: Tensor, mask: Tensor | None, critic: AgentNetworks) -> None:
        """Update the statistics with returns.

        Args:
            mask: Which returns count.
            critic: The critic whose last layer PopArt rescales.
        """
        if self.rms is None:
            return
        mean, std = self._before = self.mean.clone(), self.std.clone()
        self.rms.update(returns, mask)
        self.mean.copy_(self.rms.mean)
        self.std.copy_(self.rms.std)
        if self._rescales:
            layers = critic.networks.named_layers()  # type: ignore[operator]
            weight, bias = (layers[f"{critic.last_layer}.{part}"] for part in ("weight", "bias"))
            weight.mul_(std / self.std)
            bias.mul_(std / self.std).add_((mean - self.mean) / self.std)

    def normalize(self, values: Tensor) -> Tensor:
        """Values as normalised outputs."""
        return values if self.rms is None else (values - self.mean) / self.std

    def outputs_before(self, values: Tensor) -> Tensor:
        """Outputs for old values: by the statistics before the last update, or by the current ones with PopArt."""
        mean, std = self._before
        return self.normalize(values) if self.rms is None or self._rescales else (values - mean) / std

    def denormalize(self, outputs: Tensor) -> Tensor:
        """Normalised outputs as values."""
        return outputs if self.rms is None else outputs * self.std + self.mean
