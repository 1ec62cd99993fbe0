"""Values as critics learn them: as they are, or less a running mean over a running deviation of returns."""

from __future__ import annotations

from typing import Literal, final

import torch
from torch import Tensor, nn

from recollect.errors import OptionError
from recollect.learn.agent_networks import AgentNetworks
from recollect.learn.running_stats import RunningMeanStd

__all__ = ["ValueNorm"]


@final
class ValueNorm(nn.Module):
    """Between a critic's outputs and values.

    Args:
        kind: ``"none"``; ``"running"``: outputs are values less their mean, over their deviation; ``"popart"``: and the
            last layer is rescaled with these, so that values stay as they were (van Hasselt et al. 2016).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, kind: Literal["none", "running", "popart"], critic: AgentNetworks) -> None:
        super().__init__()
        if kind == "popart" and not critic.last_layer:
            raise OptionError("value_norm", "not be popart with a network of one's own", repr(kind))
        self.rms = None if kind == "none" else RunningMeanStd()
        self.register_buffer("mean", torch.zeros(()))  # of the running statistics, in the critic's precision
        self.register_buffer("std", torch.ones(()))
        self._rescales = kind == "popart"
        self._before = (self.mean, self.std)

    @torch.no_grad()
    def update(self, returns: Tensor, mask: Tensor | None, critic: AgentNetworks) -> None:
        """Take returns in.

        Args:
            mask: Which of them count.
            critic: What popart rescales.
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
        """Values as the critic gives them."""
        return values if self.rms is None else (values - self.mean) / self.std

    def outputs_before(self, values: Tensor) -> Tensor:
        """What the critic gave for values before the last update of the statistics, or would give now by popart."""
        mean, std = self._before
        return self.normalize(values) if self.rms is None or self._rescales else (values - mean) / std

    def denormalize(self, outputs: Tensor) -> Tensor:
        """Values, of what the critic gives."""
        return outputs if self.rms is None else outputs * self.std + self.mean
