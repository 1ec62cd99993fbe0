"""One agent's deterministic policy, and the actor that acts by it and by noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from relive.agents.state import NetworkActor, below
from relive.envs.interface import AgentGroup
from relive.errors import OptionError
from relive.learn.actions import BoxActions
from relive.learn.encoders import Encoder, EncoderFactory
from relive.learn.exploration import GaussianNoise, OrnsteinUhlenbeck
from relive.learn.factories import NetworkFactory, custom_network
from relive.learn.networks import Copies, StackedMLP
from relive.tensors import from_env
from relive.types import Array, Arrays

__all__ = ["NOISES", "DeterministicActor", "TanhPolicy", "continuous"]

NOISES = {"gaussian": GaussianNoise, "ou": OrnsteinUhlenbeck}


def continuous(space: Space[Any], name: str) -> BoxActions:
    """A box of actions, from -1 to 1 for networks."""
    if not isinstance(space, spaces.Box):
        raise OptionError("action space", f"be a Box for {name}", space, "DQN, SAC and PPO learn choices.")
    return BoxActions(space)


@final
class TanhPolicy(nn.Module):
    """What one agent does: tanh of what a network gives, from -1 to 1.

    Args:
        options: Of ``StackedMLP``.
    """

    def __init__(
        self,
        group: AgentGroup,
        *,
        hidden: tuple[int, ...],
        encoder: EncoderFactory | None,
        network: NetworkFactory | None,
        name: str,
        **options: Any,
    ) -> None:
        super().__init__()
        self.group, self.box = group, continuous(group.action_space, name)
        self.encoder = Encoder(group.obs_space, encoder)
        sizes = (self.encoder.features, *hidden, self.box.width)
        self.network: nn.Module
        if network is not None:
            self.network = Copies(1, lambda: custom_network(network, sizes[0], sizes[-1]))
        else:
            self.network = StackedMLP(1, sizes, **options)

    def forward(self, obs: Any) -> Tensor:
        """Normalised actions ``[B, n]`` of observations ``[B, ...]``."""
        return torch.tanh(self.network(self.encoder(obs)[None])[0])


@final
class DeterministicActor(NetworkActor):
    """An agent in each of some environments.

    Args:
        policy: Becomes this actor's own.
        explore: Whether noise is added, and the first steps are by chance.
        noise: A name of ``NOISES``.
        scale: The noise's.
        random_steps: Steps at first whose actions are uniform.
    """

    def __init__(
        self,
        policy: TanhPolicy,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
        noise: str,
        scale: float,
        random_steps: int,
    ) -> None:
        super().__init__(policy, device, explore=explore, seed=seed)
        self._policy = policy
        self._noise: Any = NOISES[noise]()
        self._scale, self._random_steps, self._num_envs = scale, random_steps, num_envs

    @torch.no_grad()
    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions ``[E, ...]``; rows hold nothing besides."""
        if self._explore and step < self._random_steps:
            action = torch.empty(self._num_envs, self._policy.box.width, device=self._device)
            action.uniform_(-1, 1, generator=self._generator)
        else:
            action = self._policy(from_env(obs, self._device)["obs"])
            if self._explore:  # noise is of agents, then environments
                action = (action + self._noise(action[None], self._scale, self._generator)[0]).clamp(-1, 1)
        return {"action": self._policy.box.to_env(action)}, {}

    def reset(self, mask: Array) -> None:
        """Reset what is kept of an episode where it ended, ``[E]``."""
        self._noise.reset(self._ended(mask))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        noise = {f"noise.{name}": value.cpu() for name, value in self._noise.state_dict().items()}
        return super().state_dict() | noise

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self._noise.load_state_dict({name: value.to(self._device) for name, value in below(state, "noise.").items()})
