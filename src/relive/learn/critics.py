"""Q(s, a) critics of one agent: one, or several (twin Q) in one stacked network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor, nn

from relive.learn import kernels
from relive.learn.encoders import Encoder, EncoderFactory
from relive.learn.factories import NetworkFactory, custom_network
from relive.learn.networks import Copies, StackedMLP

__all__ = ["Critics", "Temperature"]


@final
class Critics(nn.Module):
    """N critics with a shared encoder if the encoder has parameters.

    >>> from gymnasium import spaces
    >>> critics = Critics(2, spaces.Box(-1, 1, (4,)), 3)
    >>> critics(torch.zeros(10, 4), torch.zeros(10, 3)).shape
    torch.Size([2, 10, 1])

    Args:
        action_width: Width of the normalised action that critics read; 0: none.
        outputs: 1, or the number of discrete actions.
        network: A factory of custom networks, called with the widths of input and output.
    """

    def __init__(
        self,
        count: int,
        space: Space[Any],
        action_width: int,
        *,
        outputs: int = 1,
        hidden: Sequence[int] = (256, 256),
        activation: str = "relu",
        init: str = "uniform",
        encoder: EncoderFactory | None = None,
        network: NetworkFactory | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(space, encoder)
        inputs = self.encoder.features + action_width
        self.networks: nn.Module
        if network is not None:
            self.networks = Copies(count, lambda: custom_network(network, inputs, outputs))
        else:
            how: dict[str, Any] = {"activation": activation, "init": init, "generator": generator}
            self.networks = StackedMLP(count, (inputs, *hidden, outputs), **how)

    def forward(self, obs: Any, action: Tensor | None = None) -> Tensor:
        """Q ``[N, B, outputs]`` of observations ``[B, ...]`` and normalised actions ``[B, n]``."""
        found: Tensor = self.networks(*self._inputs(obs, action))
        return found

    def first(self, obs: Any, action: Tensor) -> Tensor:
        """Q ``[B, outputs]`` of the first critic alone."""
        inputs = self._inputs(obs, action)
        if isinstance(self.networks, StackedMLP):
            shape = self.networks.shape._replace(num_networks=1)
            return kernels.mlp(shape, self.networks.flat[:1], *inputs)[0]
        found: Tensor = self.networks(*inputs)[0]
        return found

    def _inputs(self, obs: Any, action: Tensor | None) -> list[Tensor]:
        features = self.encoder(obs)
        return [features] if action is None else [features, action]


@final
class Temperature(nn.Module):
    """SAC's entropy temperature alpha, learned as its logarithm."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(alpha).log().reshape(1))

    @property
    def alpha(self) -> Tensor:
        """The temperature alpha, detached."""
        return self.log_alpha.detach().exp()[0]
