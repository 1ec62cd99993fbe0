"""One agent's stochastic policy and its value, with or without a recurrent state, and the actor that acts by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm
from relive.agents.state import NetworkActor
from relive.envs.interface import AgentGroup
from relive.learn.agent_networks import AgentNetworks, Packed
from relive.learn.distributions import Distribution
from relive.learn.encoders import Encoder, EncoderFactory
from relive.learn.policy_heads import ChoicePolicy, policy_head
from relive.learn.value_norm import ValueNorm
from relive.schema import Field
from relive.tensors import from_env
from relive.types import Array, Arrays

__all__ = ["ActorCritic", "Outcome", "SoloActor", "row_fields"]


class Outcome(NamedTuple):
    """What networks make of rows ``[R, ...]``."""

    distribution: Distribution
    value: Tensor | None
    """Normalised, ``[R]``; None: there is no critic."""
    states: dict[str, Tensor]
    """Last states of sequences ``[S, size]`` by the names of their fields, where networks are recurrent."""
    rows: int


@final
class ActorCritic(nn.Module):
    """What one agent does by chance, and what it expects of it.

    Args:
        critic: Whether there is one.
        shared_encoder: Whether policy and critic read the features of one encoder.
        log_std: Of continuous actions at first, where -1 to 1 spans them.
        squash: Whether continuous actions are tanh of normal numbers, and not clipped ones.
        options: Of ``AgentNetworks``.
    """

    def __init__(
        self,
        group: AgentGroup,
        *,
        encoder: EncoderFactory | None,
        critic: bool,
        shared_encoder: bool = True,
        value_norm: Literal["none", "running", "popart"] = "none",
        log_std: float = 0.0,
        squash: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.group = group
        self.head = policy_head(group.action_space, log_std=log_std, squash=squash)
        self.encoder = Encoder(group.obs_space, encoder)
        features = self.encoder.features
        self.policy = AgentNetworks(1, features, self.head.outputs, last_gain=0.01, **options)
        self.critic = AgentNetworks(1, features, 1, **options) if critic else None
        apart = critic and not shared_encoder and self.encoder.trained
        self.critic_encoder = Encoder(group.obs_space, encoder) if apart else None
        self.norm = None if self.critic is None else ValueNorm(value_norm, self.critic)

    @property
    def recurrent(self) -> dict[str, AgentNetworks]:
        """Networks with a state, by the name of its field."""
        every = {"policy_state": self.policy, "value_state": self.critic}
        return {name: each for name, each in every.items() if each is not None and each.state_size}

    def forward(self, rows: Mapping[str, Any], packed: Mapping[str, Packed]) -> Outcome:
        """Of rows ``[R, ...]``, which are sequences where networks are recurrent."""
        states: dict[str, Tensor] = {}
        features = self.encoder(rows["obs"])
        outputs = self._applied(self.policy, features, "policy_state", packed, states)
        distribution = self.head.distribution(outputs, rows["avail_actions"] if self.group.avail else None)
        if self.critic is None:
            return Outcome(distribution, None, states, features.shape[0])
        features = features if self.critic_encoder is None else self.critic_encoder(rows["obs"])
        value = self._applied(self.critic, features, "value_state", packed, states)
        return Outcome(distribution, value[:, 0], states, features.shape[0])

    @staticmethod
    def _applied(
        network: AgentNetworks, features: Tensor, name: str, packed: Mapping[str, Packed], states: dict[str, Tensor]
    ) -> Tensor:
        if not network.state_size:
            return network.alone(features)
        given = packed.get(name)
        outputs, state = network(features[:, None], given and Packed(given.batch_sizes, given.state[:, None]))
        if state is not None:
            states[name] = state[:, 0]
        return outputs[:, 0]

    def values(self, outcome: Outcome) -> Tensor:
        """Values ``[R]`` as rewards count; zeros where there is no critic."""
        if self.norm is None or outcome.value is None:
            return torch.zeros(outcome.rows, device=next(self.parameters()).device)
        return self.norm.denormalize(outcome.value)


def row_fields(group: AgentGroup, state_size: int, *, critic: bool) -> dict[str, Field]:
    """What an actor adds to rows: log-probabilities, values, what was drawn before clipping, recurrent states.

    Args:
        state_size: Numbers of a recurrent state; 0: there is none.
    """
    raw = policy_head(group.action_space).raw_width
    found = {"log_prob": Field(), "value": Field()} | ({"raw_action": Field((raw,))} if raw else {})
    states = ("policy_state", "value_state")[: 1 + critic] if state_size else ()
    return found | {name: Field((state_size,)) for name in states}


@final
class SoloActor(NetworkActor):
    """An agent in each of some environments.

    Args:
        network: Becomes this actor's own.
        explore: Whether actions are drawn, and rows get what learning needs; else actions are the likeliest.
        replayed: Whether that is nothing, since learning is off-policy.
        random_steps: Steps at first whose actions are uniform, if exploring.
    """

    def __init__(
        self,
        network: ActorCritic,
        obs_norm: ObsNorm,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
        replayed: bool = False,
        random_steps: int = 0,
    ) -> None:
        super().__init__(nn.ModuleList([network, obs_norm]), device, explore=explore, seed=seed)
        self._replayed, self._random_steps, self._num_envs = replayed, random_steps, num_envs
        self._network, self._obs_norm = network, obs_norm
        self._states = {name: part.initial_state(num_envs)[:, 0] for name, part in network.recurrent.items()}

    @torch.no_grad()
    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions, and with exploration their log-probabilities, values, and the states that they came from."""
        if self._explore and step < self._random_steps:
            return {"action": self._by_chance(obs)}, {}
        seen = self._obs_norm(from_env(obs, self._device))
        before = self._states
        outcome = self._network(seen, {name: Packed([len(state)], state) for name, state in before.items()})
        self._states = outcome.states
        distribution, head = outcome.distribution, self._network.head
        action = distribution.sample(self._generator) if self._explore else distribution.mode()
        actions = {"action": head.to_env(action)}
        if not self._explore or self._replayed:
            return actions, {}
        extras = {"log_prob": distribution.log_prob(action), **before}
        extras["value"] = self._network.values(outcome)
        if head.raw_width:
            extras["raw_action"] = action
        return actions, {name: value.cpu().numpy() for name, value in extras.items()}

    def _by_chance(self, obs: Mapping[str, Any]) -> Any:
        """Uniform actions, of those that may be taken."""
        head = self._network.head
        if isinstance(head, ChoicePolicy):
            mask = from_env(obs, self._device).get("avail_actions")
            even = torch.zeros(self._num_envs, head.outputs, device=self._device)
            return head.to_env(head.distribution(even, mask).sample(self._generator))
        action = torch.empty(self._num_envs, head.box.width, device=self._device)
        return head.to_env(action.uniform_(-1, 1, generator=self._generator))
