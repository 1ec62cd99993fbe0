"""Policies as functions of tensors, without exploration: for other programs, and for ONNX and ``torch.export``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm, StochasticPolicy, one_step
from relive.agents.q_networks import QNetworks
from relive.agents.recurrent_q import RecurrentQ
from relive.agents.solo_policy import ActorCritic
from relive.agents.td3_actor import TanhPolicy
from relive.agents.transitions import GroupReader
from relive.envs.adapters.single_env import leaves
from relive.envs.interface import AgentGroup
from relive.learn.agent_networks import Packed
from relive.learn.exploration import greedy
from relive.learn.policies import Policy
from relive.learn.q_network import QNetwork
from relive.memory.batch import nested

__all__ = [
    "BestAction",
    "BestActionOfState",
    "DeterministicPolicy",
    "GreedyPolicy",
    "Inputs",
    "LikeliestAction",
    "LikeliestPolicy",
    "TanhAction",
]

Inputs = dict[str, tuple[tuple[int, ...], torch.dtype]]
"""Shapes behind the axis of environments and dtypes, by name."""


def _observed(group: AgentGroup) -> Inputs:
    """What a group's policy reads: its observations, and which actions it may take."""
    spaces = leaves(group.obs_space, group.key("obs"))
    kinds = {key: torch.from_numpy(space.sample()[None]).dtype for key, space in spaces.items()}
    kinds = {key: torch.float32 if kind.is_floating_point else kind for key, kind in kinds.items()}
    found: Inputs = {key: ((len(group), *(space.shape or ())), kinds[key]) for key, space in spaces.items()}
    if group.avail:
        found[group.key("avail_actions")] = ((len(group), int(group.action_space.n)), torch.bool)
    return found


def _observed_alone(group: AgentGroup, frames: int = 1) -> Inputs:
    """The same of one agent, without its axis, and with one of frames where there are several."""
    stack = (frames,) if frames > 1 else ()
    return {
        key: ((*(stack if key == "obs" else ()), *shape[1:]), kind) for key, (shape, kind) in _observed(group).items()
    }


def _fields(group: AgentGroup, given: Mapping[str, Tensor]) -> Any:
    tree = nested(dict(given))
    return tree[group.name] if group.name else tree


@final
class BestAction(nn.Module):
    """DQN's: observations ``[E, ...]``, or stacks of them, in; the best actions ``[E]`` out."""

    def __init__(self, network: QNetwork, group: AgentGroup, frames: int) -> None:
        super().__init__()
        self._network = network
        self.inputs: Inputs = _observed_alone(group, frames)
        self.outputs = ("action",)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The best actions, by the order of ``inputs``."""
        given = nested(dict(zip(self.inputs, values, strict=True)))
        return (greedy(self._network(given["obs"]), given.get("avail_actions")) + self._network.start,)


@final
class BestActionOfState(nn.Module):
    """R2D2's: observations ``[E, ...]``, or stacks of them, and states (zeros at first) in; actions and states out."""

    def __init__(self, network: RecurrentQ, group: AgentGroup, frames: int) -> None:
        super().__init__()
        self._network = network
        self.inputs: Inputs = _observed_alone(group, frames) | {"hidden_state": ((network.state_size,), torch.float32)}
        self.outputs = ("action", "next_hidden_state")

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The best actions and the next states, by the order of ``inputs``."""
        given = nested(dict(zip(self.inputs, values, strict=True)))
        state = given["hidden_state"]
        q, state = self._network(given["obs"], Packed([state.shape[0]], state))
        return greedy(q, given.get("avail_actions")) + self._network.start, state


@final
class DeterministicPolicy(nn.Module):
    """MADDPG's: every group's observations ``[E, A, ...]`` in, actions as the environment takes them out. Of an
    ensemble it is the first policy.
    """

    def __init__(self, groups: Sequence[tuple[Policy, GroupReader]]) -> None:
        super().__init__()
        self._policies = nn.ModuleList(policy for policy, _ in groups)
        self._readers = nn.ModuleList(reader for _, reader in groups)
        self._groups = [reader.spec for _, reader in groups]
        self.inputs: Inputs = {key: what for group in self._groups for key, what in _observed(group).items()}
        self.outputs = tuple(group.key("action") for group in self._groups)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Actions of every group, by the order of ``inputs`` and ``outputs``."""
        given = dict(zip(self.inputs, values, strict=True))
        actions = []
        for group, policy, reader in zip(self._groups, self._policies, self._readers, strict=True):
            fields = _fields(group, given)
            mask = fields["avail_actions"].transpose(0, 1) if group.avail else None
            outputs = policy(reader.obs(fields["obs"]))  # type: ignore[operator]
            action = reader.head.distribution(outputs, mask).mode()  # type: ignore[union-attr, operator]
            actions.append(reader.head.env_action(action).transpose(0, 1))  # type: ignore[union-attr, operator]
        return tuple(actions)


@final
class GreedyPolicy(nn.Module):
    """QMIX's: every group's observations, last actions (-1 at first) and recurrent states (zeros at first) in; the best
    actions and the next states out. States are ``[E, A, size]``.
    """

    def __init__(self, groups: Sequence[QNetworks]) -> None:
        super().__init__()
        self._networks = nn.ModuleList(groups)
        self._groups = [network.group for network in groups]
        self.inputs: Inputs = {}
        self.outputs: tuple[str, ...] = ()
        for network in groups:
            group = network.group
            self.inputs |= _observed(group)
            self.inputs[group.key("last_action")] = ((network.agents,), torch.int64)
            self.outputs += (group.key("action"),)
            if network.state_size:
                self.inputs[group.key("hidden_state")] = ((network.agents, network.state_size), torch.float32)
                self.outputs += (group.key("next_hidden_state"),)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Actions and states of every group, by the order of ``inputs`` and ``outputs``."""
        given = dict(zip(self.inputs, values, strict=True))
        found: list[Tensor] = []
        for network in self._networks:
            assert isinstance(network, QNetworks)
            group, fields = network.group, _fields(network.group, given)
            last = fields["last_action"] - network.start * (fields["last_action"] >= 0)
            state = fields["hidden_state"] if network.state_size else last.new_zeros(0)
            q, state = network.step(fields["obs"], last, network.packed_state(state))
            mask = fields["avail_actions"] if group.avail else None
            found.append(greedy(q, mask) + network.start)
            if network.state_size:
                found.append(network.unpacked_state(state, last.shape[0]))
        return tuple(found)


@final
class LikeliestPolicy(nn.Module):
    """Of stochastic policies: every group's observations, mean actions and recurrent states (zeros at first) in, as far
    as they read them; the likeliest actions and the next states out. States are ``[E, A, size]``.
    """

    def __init__(self, policies: Sequence[StochasticPolicy], obs_norm: ObsNorm) -> None:
        super().__init__()
        self._policies, self._obs_norm = nn.ModuleList(policies), obs_norm
        self.inputs: Inputs = {}
        self.outputs: tuple[str, ...] = ()
        for policy in policies:
            group, size = policy.group, policy.networks.state_size
            self.inputs |= _observed(group)
            self.outputs += (group.key("action"),)
            if policy.mean_action:
                self.inputs[group.key("mean_action")] = ((len(group), policy.mean_action), torch.float32)
            if size:
                self.inputs[group.key("hidden_state")] = ((len(group), size), torch.float32)
                self.outputs += (group.key("next_hidden_state"),)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Actions and states of every group, by the order of ``inputs`` and ``outputs``."""
        seen = self._obs_norm(nested(dict(zip(self.inputs, values, strict=True))))
        found: list[Tensor] = []
        for policy in self._policies:
            assert isinstance(policy, StochasticPolicy)
            fields = seen[policy.group.name] if policy.group.name else seen
            distribution, state = policy(seen, one_step(fields.get("hidden_state"), policy.networks))
            found.append(policy.head.env_action(distribution.mode()))
            if state is not None:
                found.append(state)
        return tuple(found)


@final
class LikeliestAction(nn.Module):
    """Of one agent: observations ``[E, ...]`` and recurrent states ``[E, size]`` (zeros at first) in, the likeliest
    actions and the next states out.
    """

    def __init__(self, network: ActorCritic, obs_norm: ObsNorm) -> None:
        super().__init__()
        self._network, self._obs_norm = network, obs_norm
        self.inputs: Inputs = _observed_alone(network.group)
        self.outputs: tuple[str, ...] = ("action",)
        for name, part in network.recurrent.items():
            self.inputs[name] = ((part.state_size,), torch.float32)
            self.outputs += (f"next_{name}",)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Actions and states, by the order of ``inputs`` and ``outputs``."""
        seen = self._obs_norm(nested(dict(zip(self.inputs, values, strict=True))))
        states = {name: seen[name] for name in self._network.recurrent}
        outcome = self._network(seen, {name: Packed([state.shape[0]], state) for name, state in states.items()})
        action = self._network.head.env_action(outcome.distribution.mode())
        return (action, *outcome.states.values())


@final
class TanhAction(nn.Module):
    """Of one agent's deterministic policy: observations ``[E, ...]`` in, actions as the environment takes them out."""

    def __init__(self, policy: TanhPolicy) -> None:
        super().__init__()
        self._policy = policy
        self.inputs: Inputs = _observed_alone(policy.group)
        self.outputs = ("action",)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Actions, by the order of ``inputs``."""
        given = nested(dict(zip(self.inputs, values, strict=True)))
        return (self._policy.box.env_action(self._policy(given["obs"])),)
