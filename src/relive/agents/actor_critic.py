"""Policies and critics of a group of agents, and what both read: for algorithms with stochastic policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from relive.agents.central import CentralInputs
from relive.envs.interface import AgentGroup, Env
from relive.errors import OptionError
from relive.learn.agent_networks import AgentNetworks, Packed
from relive.learn.distributions import Distribution
from relive.learn.encoders import EncoderFactory
from relive.learn.policies import Encoders
from relive.learn.policy_heads import policy_head
from relive.learn.running_stats import RunningMeanStd
from relive.learn.value_norm import ValueNorm
from relive.tensors import map_tensors

__all__ = [
    "CRITICS",
    "ObsNorm",
    "StochasticPolicy",
    "ValueCritic",
    "encoded",
    "fields_of_group",
    "one_step",
    "seen_after",
]

CRITICS = ("auto", "own", "state", "all_obs", "agent")


def fields_of_group(group: AgentGroup, batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """A group's fields of a batch."""
    found: Mapping[str, Any] = batch[group.name] if group.name else batch
    return found


def seen_after(groups: Sequence[AgentGroup], batch: Mapping[str, Any]) -> dict[str, Any]:
    """What was seen after the steps of a batch, under the names of what was seen before."""
    found: dict[str, Any] = {"state": batch["next_state"]} if "next_state" in batch else {}
    for group in groups:
        fields = fields_of_group(group, batch)
        after = {key.removeprefix("next_"): value for key, value in fields.items() if key.startswith("next_")}
        found |= {group.name: after} if group.name else after
    return found


@final
class ObsNorm(nn.Module):
    """Observations, and the state, less their running mean over their deviation; as they are if not ``enabled``."""

    def __init__(self, env: Env, *, enabled: bool) -> None:
        super().__init__()
        self._groups = env.groups
        self.obs = nn.ModuleList(RunningMeanStd(_shape(group.obs_space)) for group in env.groups if enabled)
        self.state = RunningMeanStd(_shape(env.state_space)) if enabled and env.state_space is not None else None

    def update(self, batch: Mapping[str, Any]) -> None:
        """Take rows ``[R, ...]`` in; of agents, those who are there."""
        for group, rms in zip(self._groups, self.obs, strict=False):
            fields = fields_of_group(group, batch)
            rms.update(fields["obs"], fields.get("agent_mask"))  # type: ignore[operator]
        if self.state is not None:
            self.state.update(batch["state"])

    def forward(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same rows, with what is observed as networks read it."""
        if not self.obs:
            return batch
        made = dict(batch)
        for group, rms in zip(self._groups, self.obs, strict=True):
            fields = fields_of_group(group, batch)
            if group.name:
                made[group.name] = {**fields, "obs": rms(fields["obs"])}
            else:
                made["obs"] = rms(fields["obs"])
        if self.state is not None and "state" in batch:  # policies alone are not shown it
            made["state"] = self.state(batch["state"])
        return made


@final
class StochasticPolicy(nn.Module):
    """What the agents of a group do by chance, by what each of them observes.

    Args:
        log_std: Of continuous actions at first, where -1 to 1 spans them.
        squash: Whether continuous actions are tanh of normal numbers, and not clipped ones.
        mean_action: Numbers of the neighbours' mean action, which is read too; 0: it is not.
        options: Of ``AgentNetworks``.
    """

    def __init__(
        self,
        group: AgentGroup,
        *,
        encoder: EncoderFactory | None,
        shared: bool,
        log_std: float = 0.0,
        squash: bool = False,
        mean_action: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        self.group = group
        networks = 1 if shared else len(group)
        self.head = policy_head(group.action_space, log_std=log_std, networks=networks, squash=squash)
        self.encoders = Encoders(networks, group.obs_space, encoder)
        self.mean_action = mean_action
        features, outputs = self.encoders.features + mean_action, self.head.outputs
        self.networks = AgentNetworks(len(group), features, outputs, shared=shared, last_gain=0.01, **options)

    def forward(self, batch: Mapping[str, Any], packed: Packed | None = None) -> tuple[Distribution, Tensor | None]:
        """The distribution of actions ``[R, A, ...]`` for rows ``[R, ...]``, and the last states of sequences."""
        fields = fields_of_group(self.group, batch)
        features = encoded(self.encoders, fields["obs"])
        if self.mean_action:
            features = torch.cat([features, fields["mean_action"]], dim=2)
        outputs, state = self.networks(features, packed)
        return self.head.distribution(outputs, fields["avail_actions"] if self.group.avail else None), state


@final
class ValueCritic(nn.Module):
    """V of every agent of a group.

    Args:
        kind: What it reads: ``"own"``: each agent's observation (IPPO); ``"state"`` or ``"all_obs"``: the environment's
            state or all observations, by one network with an output an agent; ``"agent"``: both, agent by agent;
            ``"auto"``: the state where there is one, else all observations.
        team: Whether all agents are worth the same, since they learn from one reward.
        mean_action: Numbers of the neighbours' mean action, which is read with an agent's observation; 0: it is not.
        options: Of ``AgentNetworks``.
    """

    def __init__(
        self,
        env: Env,
        group: AgentGroup,
        *,
        kind: Literal["auto", "own", "state", "all_obs", "agent"],
        team: bool,
        encoder: EncoderFactory | None,
        shared: bool,
        value_norm: Literal["none", "running", "popart"] = "none",
        mean_action: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        self.group = group
        central = "state" if kind == "agent" and env.state_space is not None else kind
        central = "all_obs" if central == "agent" else central
        self.central = None if kind == "own" else CentralInputs(env, encoder, central)  # type: ignore[arg-type]
        own = kind in ("own", "agent")
        self.encoders = Encoders(1 if shared else len(group), group.obs_space, encoder) if own else None
        self._mean_action = bool(mean_action) and own
        features = (self.central.features if self.central else 0) + (self.encoders.features if self.encoders else 0)
        features += mean_action if own else 0
        agents, outputs = (len(group), 1) if own else (1, 1 if team else len(group))
        self.networks = AgentNetworks(agents, features, outputs, shared=shared or not own, **options)
        self.norm = ValueNorm(value_norm, self.networks)

    def forward(self, batch: Mapping[str, Any], packed: Packed | None = None) -> tuple[Tensor, Tensor | None]:
        """Normalised values ``[R, A]`` of rows ``[R, ...]``, and the last states of sequences."""
        parts = []
        if self.central is not None:
            parts.append(self.central(batch)[:, None].expand(-1, self.networks.agents, -1))
        if self.encoders is not None:
            parts.append(encoded(self.encoders, fields_of_group(self.group, batch)["obs"]))
        if self._mean_action:
            parts.append(fields_of_group(self.group, batch)["mean_action"])
        outputs, state = self.networks(parts[0] if len(parts) == 1 else torch.cat(parts, dim=2), packed)
        return outputs.flatten(1).expand(-1, len(self.group)), state

    def value(self, batch: Mapping[str, Any], packed: Packed | None = None) -> tuple[Tensor, Tensor | None]:
        """Values ``[R, A]``, and the last states of sequences."""
        outputs, state = self(batch, packed)
        return self.norm.denormalize(outputs), state


def encoded(encoders: Encoders, obs: Any) -> Tensor:
    """Features ``[R, A, n]`` of observations ``[R, A, ...]``, each agent's by its own encoder."""
    if len(encoders.networks) == 1:
        return encoders(obs)
    found: Tensor = encoders(map_tensors(lambda x: x.transpose(0, 1), obs))
    return found.transpose(0, 1)


def _shape(space: Space[Any]) -> tuple[int, ...]:
    if not isinstance(space, spaces.Box) or len(space.shape) > 1 or not np.issubdtype(space.dtype, np.floating):
        raise OptionError("observation space", "be a Box of one axis for normalize_obs", space)
    return tuple(space.shape)


def one_step(state: Tensor | None, networks: AgentNetworks) -> Packed | None:
    """Sequences of one step from some states ``[E, A, size]``; nothing for networks that have none."""
    return Packed([state.shape[0]], state) if state is not None and networks.state_size else None
