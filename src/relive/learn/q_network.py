"""Q-networks of DQN and its variants: distributional, dueling, noisy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, final

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn.encoders import Encoder, EncoderFactory
from relive.learn.factories import NetworkFactory, custom_network
from relive.learn.networks import StackedMLP
from relive.learn.noisy import NoisyMLP

__all__ = ["QNetwork"]


@final
class QNetwork(nn.Module):
    """Q-values of observations ``[B, ...]``.

    >>> network = QNetwork(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), distribution="c51", atoms=51)
    >>> obs = torch.zeros(10, 4)
    >>> network.distribution(obs).shape, network(obs).shape
    (torch.Size([10, 2, 51]), torch.Size([10, 2]))

    Args:
        hidden: Units of the hidden layers after the encoder; empty: a linear layer.
        dueling: Whether there are separate value and advantage streams (Wang et al. 2016).
        distribution: ``"none"``: the expected return; ``"c51"``: probabilities of ``atoms`` values from ``v_min`` to
            ``v_max``; ``"qr"``: that many quantiles.
        noisy_sigma: sigma_0 of noisy layers; 0: ordinary layers.
        network: A factory of custom networks, called with the widths of input and output.
    """

    support: Tensor

    def __init__(
        self,
        obs_space: Space[Any],
        action_space: Space[Any],
        *,
        hidden: Sequence[int] = (128, 128),
        activation: str = "relu",
        init: str = "uniform",
        dueling: bool = False,
        distribution: Literal["none", "c51", "qr"] = "none",
        atoms: int = 1,
        v_min: float = -10.0,
        v_max: float = 10.0,
        noisy_sigma: float = 0.0,
        encoder: EncoderFactory | None = None,
        network: NetworkFactory | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete):
            remedy = "SAC, TD3, DDPG and PPO learn continuous actions."
            raise OptionError("action space", "be Discrete", action_space, remedy)
        self.actions, self.start = int(action_space.n), int(action_space.start)
        self.kind, self.atoms = distribution, 1 if distribution == "none" else atoms
        self.register_buffer("support", torch.linspace(v_min, v_max, self.atoms), persistent=False)
        self.encoder = Encoder(obs_space, encoder)

        def make(outputs: int) -> nn.Module:
            if network is not None:
                return custom_network(network, self.encoder.features, outputs)
            sizes = (self.encoder.features, *hidden, outputs)
            if noisy_sigma:
                return NoisyMLP(sizes, activation=activation, sigma=noisy_sigma, generator=generator)
            return StackedMLP(1, sizes, activation=activation, init=init, generator=generator)

        self.advantage = make(self.actions * self.atoms)
        self.value = make(self.atoms) if dueling else None

    def outputs(self, obs: Any) -> Tensor:
        """Network outputs ``[B, n, atoms]``: Q, logits of atoms, or quantiles."""
        features = self.encoder(obs)
        found = self._applied(self.advantage, features).view(-1, self.actions, self.atoms)
        if self.value is None:
            return found
        value = self._applied(self.value, features).view(-1, 1, self.atoms)
        return value + found - found.mean(dim=1, keepdim=True)

    @property
    def plain(self) -> StackedMLP | None:
        """The bare MLP, if it maps raw observations to Q; else None."""
        alone = self.encoder.as_is and self.kind == "none" and self.value is None
        return self.advantage if alone and isinstance(self.advantage, StackedMLP) else None

    @staticmethod
    def _applied(network: nn.Module, features: Tensor) -> Tensor:
        stacked = isinstance(network, StackedMLP)
        found: Tensor = network(features[None]).squeeze(0) if stacked else network(features)
        return found

    def distribution(self, obs: Any) -> Tensor:
        """The return distribution of every action ``[B, n, atoms]``: probabilities of the atoms, or quantiles."""
        found = self.outputs(obs)
        return found.softmax(dim=2) if self.kind == "c51" else found

    def mean(self, distribution: Tensor) -> Tensor:
        """Q: the expectation of return distributions ``[..., atoms]``."""
        if self.kind == "c51":
            return distribution @ self.support
        return distribution.squeeze(-1) if self.kind == "none" else distribution.mean(dim=-1)

    def forward(self, obs: Any) -> Tensor:
        """Q ``[B, n]``."""
        return self.mean(self.distribution(obs))
