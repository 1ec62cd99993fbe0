"""Agents with stochastic policies that act: their networks, recurrent states, and what rows hold besides actions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm, StochasticPolicy, ValueCritic, one_step
from relive.agents.mean_field import MeanField
from relive.agents.policy_modules import LikeliestPolicy
from relive.agents.state import NetworkActor, NetworkLearner
from relive.envs.interface import AgentGroup
from relive.learn.policy_heads import policy_head
from relive.schema import Field
from relive.tensors import from_env
from relive.types import Array, Arrays

__all__ = ["Acting", "StochasticActor", "StochasticLearner", "row_fields"]


@final
class Acting(nn.Module):
    """What actors need of a learner: policies, critics if rows hold values, and statistics of observations.

    Rows that hold values hold log-probabilities too.
    """

    def __init__(self, policies: list[StochasticPolicy], critics: list[ValueCritic], obs_norm: ObsNorm) -> None:
        super().__init__()
        self.policies, self.critics, self.obs_norm = nn.ModuleList(policies), nn.ModuleList(critics), obs_norm


def row_fields(
    group: AgentGroup,
    *,
    log_prob: bool = False,
    value: bool = False,
    policy_state: int = 0,
    value_state: tuple[int, int] = (0, 0),
) -> dict[str, Field]:
    """What an actor adds to rows of a group, by name.

    Args:
        policy_state: Numbers of a policy's recurrent state; 0: it has none.
        value_state: Networks of a critic and numbers of the state of each.
    """
    agents, raw = len(group), policy_head(group.action_space).raw_width
    found = dict.fromkeys([name for name, kept in (("log_prob", log_prob), ("value", value)) if kept], Field((agents,)))
    if log_prob and raw:
        found["raw_action"] = Field((agents, raw))
    if policy_state:
        found["policy_state"] = Field((agents, policy_state))
    if all(value_state):
        found["value_state"] = Field(value_state)
    return {group.key(name): field for name, field in found.items()}


@final
class StochasticActor(NetworkActor):
    """All agents in some environments.

    Args:
        acting: Networks, which become this actor's own.
        explore: Whether actions are drawn, and rows get what learning needs; else actions are the likeliest.
        mean_field: Makes the mean actions that policies read; None: they read none.
    """

    def __init__(
        self,
        acting: Acting,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
        mean_field: MeanField | None = None,
    ) -> None:
        super().__init__(acting, device, explore=explore, seed=seed)
        self._obs_norm, self._mean_field = acting.obs_norm, mean_field
        self._policies: list[StochasticPolicy] = list(acting.policies)  # type: ignore[arg-type]
        self._critics: list[ValueCritic] = list(acting.critics) if explore else []  # type: ignore[arg-type]
        named: list[tuple[str, Sequence[StochasticPolicy | ValueCritic]]] = [
            ("policy_state", self._policies),
            ("value_state", self._critics),
        ]
        parts = {f"{index}.{name}": each.networks for name, every in named for index, each in enumerate(every)}
        self._states = {name: part.initial_state(num_envs) for name, part in parts.items() if part.state_size}
        if mean_field is not None and mean_field.enabled:
            for index, policy in enumerate(self._policies):  # what was done last is a state of its own
                shape = (num_envs, len(policy.group), mean_field.width(policy.group))
                self._states[f"{index}.last_action"] = torch.zeros(shape, device=device)

    @torch.no_grad()
    def act(self, obs: Arrays, _step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions, and with exploration their log-probabilities, values, and the states that they came from."""
        seen = self._obs_norm(from_env(obs, self._device))
        actions: dict[str, Any] = {}
        extras: dict[str, Any] = {}
        for index, policy in enumerate(self._policies):
            found = self._mean_action(index, seen)
            distribution, state = policy(seen, self._before(index, "policy_state", policy, found))
            self._after(index, "policy_state", state)
            action = distribution.sample(self._generator) if self._explore else distribution.mode()
            actions[policy.group.key("action")] = policy.head.to_env(action)
            if self._mean_field is not None and "mean_action" in found:
                last = self._mean_field.one_hot(policy.group, policy.head.env_action(action))
                self._states[f"{index}.last_action"] = last
            if self._critics:
                found["log_prob"] = distribution.log_prob(action)
                if policy.head.raw_width:
                    found["raw_action"] = action
                critic = self._critics[index]
                found["value"], state = critic.value(seen, self._before(index, "value_state", critic, found))
                self._after(index, "value_state", state)
            if self._explore:
                extras |= {policy.group.key(name): value.cpu().numpy() for name, value in found.items()}
        return actions, extras

    def _mean_action(self, index: int, seen: Any) -> dict[str, Tensor]:
        """What neighbours did last on average, put among what a group sees."""
        last, group = self._states.get(f"{index}.last_action"), self._policies[index].group
        if self._mean_field is None or last is None:
            return {}
        mean = self._mean_field.mean(group, seen, last)
        (seen[group.name] if group.name else seen)["mean_action"] = mean
        return {"mean_action": mean}

    def _before(self, index: int, name: str, part: Any, found: dict[str, Tensor]) -> Any:
        state = self._states.get(f"{index}.{name}")
        if state is not None:
            found[name] = state
        return one_step(state, part.networks)

    def _after(self, index: int, name: str, state: Tensor | None) -> None:
        if state is not None:
            self._states[f"{index}.{name}"] = state


class StochasticLearner(NetworkLearner):
    """What learners of stochastic policies have in common: how their agents act, and the policies alone.

    A learner inherits it and sets ``acting``, ``policies`` and ``obs_norm``.
    """

    acting: Acting
    policies: list[StochasticPolicy]
    obs_norm: ObsNorm
    mean_field: MeanField | None = None

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> StochasticActor:
        """Agents that act with the weights of now."""
        how: dict[str, Any] = {"explore": explore, "seed": seed, "mean_field": self.mean_field}
        return StochasticActor(copy.deepcopy(self.acting), num_envs, self.networks.device, **how)

    def policy_module(self) -> LikeliestPolicy:
        """The policies alone, as a function of tensors; a copy."""
        return LikeliestPolicy(copy.deepcopy(self.policies), copy.deepcopy(self.obs_norm))

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agents of every group, by its name."""
        return {policy.group.name: policy for policy in self.policies}
