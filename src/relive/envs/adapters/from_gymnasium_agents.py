"""Adapter of multi-agent Gymnasium environments: Tuple spaces and per-agent rewards, as in lbforaging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from relive.envs.adapters.single_env import Rendered, SingleStep, flat, is_number, leaves, nest, seed31, stack
from relive.envs.checks import check_shape
from relive.envs.interface import AgentGroup
from relive.schema.spaces import by_kind
from relive.types import Array

__all__ = ["FromGymnasiumAgents", "has_agents"]


def has_agents(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether a Gymnasium environment has Tuple spaces with an entry for each agent."""
    obs, actions = env.observation_space, env.action_space
    if not (isinstance(obs, spaces.Tuple) and isinstance(actions, spaces.Tuple)):
        return False
    return len(obs) == len(actions) == getattr(env.unwrapped, "n_agents", None)


@final
class FromGymnasiumAgents(Rendered):
    """One multi-agent Gymnasium environment. Agents with equal spaces form a group; rewards are per agent."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        every, done = env.observation_space, env.action_space
        assert isinstance(every, spaces.Tuple)
        assert isinstance(done, spaces.Tuple)
        self._place = {f"agent_{i}": i for i in range(len(every))}
        obs, actions = ({name: space[i] for name, i in self._place.items()} for space in (every, done))
        self.groups = tuple(
            AgentGroup(kind, agents, obs[agents[0]], actions[agents[0]])
            for kind, agents in by_kind(obs, actions).items()
        )
        self.state_space: Space[Any] | None = None
        self.shared_reward = False
        self.max_episode_steps = _limit(env)

    def reset(self, seed: int | None = None) -> dict[str, Array]:
        """Reset the environment."""
        obs, _ = self._env.reset(seed=seed31(seed))
        return self._see(obs)

    def step(self, action: Mapping[str, Array]) -> SingleStep:
        """Step the environment."""
        chosen: list[Any] = [None] * len(self._place)
        for group in self.groups:
            key = group.key("action")
            own = {name: value for name, value in action.items() if name == key or name.startswith(f"{key}/")}
            for number, agent in enumerate(group.agents):
                mine = {name: value[number] for name, value in own.items()}
                chosen[self._place[agent]] = nest(group.action_space, mine, key)
        obs, rewards, terminated, truncated, info = self._env.step(tuple(chosen))
        earned = np.asarray(rewards, np.float32)
        check_shape(f"reward of {self.name}", earned, (len(self._place),))
        reward = {group.key("reward"): earned[[self._place[agent] for agent in group.agents]] for group in self.groups}
        over, ended = np.all(terminated), np.all(np.asarray(terminated) | np.asarray(truncated))
        known = {key: value for key, value in info.items() if is_number(value)}
        return SingleStep(self._see(obs), reward, bool(over), bool(ended and not over), known)

    def _see(self, obs: Any) -> dict[str, Array]:
        seen: dict[str, Array] = {}
        for group in self.groups:
            key, parts = group.key("obs"), []
            for agent in group.agents:
                parts.append(flat(group.obs_space, obs[self._place[agent]], key))
                for name, space in leaves(group.obs_space, key).items():
                    check_shape(f"{name} of {agent} of {self.name}", parts[-1][name], space.shape or ())
            seen |= stack(parts)
        return seen


def _limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """The episode limit, by the attribute names that environments use."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return env.spec.max_episode_steps
    for name in ("max_episode_steps", "_max_episode_steps", "max_steps"):
        found = getattr(env.unwrapped, name, None)
        if isinstance(found, (int, np.integer)) and not isinstance(found, bool) and found > 0:
            return int(found)
    return None
