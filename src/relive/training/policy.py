"""Trained policies for inference, in one environment or many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from torch import nn

from relive.agents.interface import Actor, Exports, Learner
from relive.envs.interface import AgentGroup
from relive.errors import OptionError
from relive.training.environments import make_env
from relive.training.replay import load_run
from relive.types import ArrayLike

__all__ = ["TrainedPolicy", "load_policy"]


def load_policy(
    run: str | Path, *, step: int | None = None, trust: bool = False, device: str | None = None
) -> TrainedPolicy:
    """The trained policy of a run.

    Args:
        run: The run's folder.
        step: At an earlier checkpoint that was kept (``keep_checkpoints``).
        trust: Whether to import modules that the run's settings name.
        device: Torch device; None: the run's if available here, else the CPU.

    >>> policy = load_policy("runs/maddpg-simple_spread-1")  # doctest: +SKIP
    >>> action = policy.act(obs)  # doctest: +SKIP
    """
    trained = load_run(run, step=step, trust=trust, device=device)
    made = make_env(trained.algorithm, trained.env, 1, trained.config.env_options)
    groups = made.groups
    made.close()
    return TrainedPolicy(trained.learner, groups)


@final
class TrainedPolicy:
    """A policy without exploration. Recurrent ones keep their state until ``reset``.

    Args:
        learner: The learner with the weights.
        groups: The environment's agents.
    """

    def __init__(self, learner: Learner, groups: tuple[AgentGroup, ...]) -> None:
        self.groups = groups
        self._learner = learner
        self._actor: Actor | None = None
        self._num_envs = 0

    @property
    def module(self) -> nn.Module:
        """The policy as a module of tensors, with ``inputs`` and ``outputs`` by name; a copy."""
        if not isinstance(self._learner, Exports):
            raise OptionError("algorithm", "have a policy_module", type(self._learner).__name__)
        return self._learner.policy_module()

    def reset(self, mask: ArrayLike | None = None) -> None:
        """Reset recurrent states: all, or where episodes ended ``[E]``."""
        if mask is None:
            self._actor = None
        elif self._actor is not None:
            self._actor.reset(np.asarray(mask, bool))

    def act(self, obs: Any, avail_actions: Any = None) -> Any:
        """What to do about what is seen, in the form in which that is given.

        Args:
            obs: Of one environment or many: an array ``[A, ...]`` or ``[E, A, ...]`` where agents are alike, without
                the agents' axis where there is one agent; a mapping by agents' names as PettingZoo has it, of one
                environment; or one by field names as ours have it (``"adversary/obs"``), of many.
            avail_actions: Which actions may be taken, where that is not always all, in the same form as ``obs``;
                among field names it has a name of its own.
        """
        if not isinstance(obs, Mapping):
            return self._of_array(obs, avail_actions)
        if set(obs) <= {agent for group in self.groups for agent in group.agents}:
            return self._of_agents(obs, avail_actions)
        return self._act(self._with_masks({key: np.asarray(value) for key, value in obs.items()}))

    def _of_array(self, obs: Any, avail_actions: Any) -> Any:
        if len(self.groups) > 1:
            names = ", ".join(group.key("obs") for group in self.groups)
            raise OptionError("obs", f"be a mapping with {names}, or by agents' names", type(obs).__name__)
        (group,) = self.groups
        shape, count = group.obs_space.shape, len(group)
        if shape is None:
            raise OptionError("obs", "be a mapping where spaces are nested", type(obs).__name__)
        seen = np.asarray(obs, group.obs_space.dtype)
        lead = seen.shape[: seen.ndim - len(shape)]
        whole = (int(np.prod(lead[:-1] if count > 1 else lead, dtype=int)), count)
        agents = (count,) if count > 1 else ()
        if seen.shape[len(lead) :] != shape or len(lead) > len(agents) + 1 or lead[len(lead) - len(agents) :] != agents:
            rule = f"have shape {[*agents, *shape]}, or [E, {', '.join(map(str, [*agents, *shape]))}]"
            raise OptionError("obs", rule, list(seen.shape))
        fields = {"obs": seen.reshape(*whole, *shape)}
        if avail_actions is not None:
            mask = np.asarray(avail_actions, bool)
            fields["avail_actions"] = mask.reshape(*whole, mask.shape[-1])
        action = self._choose(fields)["action"]
        return action.reshape((*lead, *action.shape[2:]))

    def _of_agents(self, obs: Mapping[str, Any], avail_actions: Any) -> dict[str, Any]:
        fields = {}
        for group in self.groups:
            shape = group.obs_space.shape or ()
            there = [np.asarray(obs[agent]) if agent in obs else np.zeros(shape) for agent in group.agents]
            fields[group.key("obs")] = np.stack(there)[None].astype(group.obs_space.dtype)
            if group.mask:
                fields[group.key("agent_mask")] = np.array([[agent in obs for agent in group.agents]])
            if group.avail:
                choices = int(group.action_space.n)
                masks = avail_actions or {}
                rows = [np.asarray(masks.get(agent, np.ones(choices)), bool) for agent in group.agents]
                fields[group.key("avail_actions")] = np.stack(rows)[None]
        actions = self._choose(fields)
        found: dict[str, Any] = {}
        for group in self.groups:
            for place, agent in enumerate(group.agents):
                if agent in obs:
                    found[agent] = actions[group.key("action")][0, place]
        return found

    def _choose(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Actions ``[E, A, ...]`` by field name."""
        if not self.groups[0].alone:
            return self._act(self._with_masks(fields))
        found = self._act(self._with_masks({key: value[:, 0] for key, value in fields.items()}))
        return {key: value[:, None] for key, value in found.items()}

    def _act(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        num_envs = len(next(iter(fields.values())))
        if self._actor is None or self._num_envs != num_envs:
            self._actor, self._num_envs = self._learner.actor(num_envs, explore=False), num_envs
        return self._actor.act(fields)[0]

    def _with_masks(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Fields with default masks: all agents alive, all actions available."""
        num_envs = len(next(iter(fields.values())))
        found: dict[str, Any] = {}
        for group in self.groups:
            lead = (num_envs,) if group.alone else (num_envs, len(group))
            if group.mask:
                found[group.key("agent_mask")] = np.ones(lead, bool)
            if group.avail:
                found[group.key("avail_actions")] = np.ones((*lead, int(group.action_space.n)), bool)
        return found | dict(fields)
