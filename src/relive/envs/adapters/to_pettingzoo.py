"""Adapter to PettingZoo's parallel interface."""

from __future__ import annotations

from typing import Any, Literal, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.interface import Env, Step, finals
from relive.errors import MissingExtra, OptionError
from relive.types import Array

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise MissingExtra("pettingzoo", "envs") from None

__all__ = ["ToPettingZoo"]


@final
class ToPettingZoo(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """One environment with PettingZoo's parallel interface.

    With action masks, an observation is a dict of ``observation`` and ``action_mask``.

    Args:
        env: Made with ``num_envs=1``.
        unavailable: How unavailable actions are handled: ``"refuse"`` raises, ``"first"`` replaces them by the first
            available one.

    >>> from relive.envs import make
    >>> env = ToPettingZoo(make("simple_tag"))
    >>> obs, infos = env.reset(seed=0)
    >>> sorted(obs)
    ['adversary_0', 'adversary_1', 'adversary_2', 'agent_0']
    """

    def __init__(self, env: Env, *, unavailable: Literal["refuse", "first"] = "refuse") -> None:
        if env.num_envs != 1:
            raise OptionError("env", "be made with num_envs=1", env.num_envs)
        if any(group.mask and not group.avail for group in env.groups):  # who may do nothing can stay
            raise OptionError("env", "have agents that stay", f"{env.name}, where they come and go")
        if unavailable not in ("refuse", "first"):
            raise OptionError("unavailable", "be 'refuse' or 'first'", repr(unavailable))
        self._env = env
        self._first = unavailable == "first"
        self.metadata = {"name": env.name, "render_modes": ["rgb_array"], "render_fps": 10, "is_parallelizable": True}
        self.render_mode = "rgb_array"
        self.possible_agents = [agent for group in env.groups for agent in group.agents]
        self.agents: list[str] = []
        self.observation_spaces: dict[str, Space[Any]] = {}
        self.action_spaces: dict[str, Space[Any]] = {}
        for group in env.groups:
            for agent in group.agents:
                obs, action = _copy(group.obs_space), _copy(group.action_space)
                if group.avail:
                    mask = spaces.MultiBinary(int(action.n))
                    obs = spaces.Dict(observation=obs, action_mask=mask)
                self.observation_spaces[agent], self.action_spaces[agent] = obs, action
        if env.state_space is not None:
            self.state_space = env.state_space
        self._seen: dict[str, Array] = {}

    def observation_space(self, agent: str) -> Space[Any]:
        """The observation space of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """The action space of an agent."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:  # noqa: ARG002
        """Reset the environment."""
        self._seen = self._env.reset(seed=None if seed is None else [seed])
        self.agents = list(self.possible_agents)
        return self._observations(self._seen, ""), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Step the environment."""
        if not self.agents:
            return {}, {}, {}, {}, {}
        chosen = {}
        for group in self._env.groups:
            missing = [agent for agent in group.agents if agent not in actions]
            if missing:
                raise OptionError("actions", "have one for every agent", f"none for {', '.join(missing)}")
            value = np.stack([np.asarray(actions[agent]) for agent in group.agents])[None]
            if group.avail and self._first:
                allowed = self._seen[group.key("avail_actions")]
                start = int(group.action_space.start)
                may = np.take_along_axis(allowed, value[..., None].astype(np.int64) - start, axis=2)[..., 0]
                value = np.where(may, value, allowed.argmax(axis=2) + start)
            chosen[group.key("action")] = value
        step = self._env.step(chosen)
        ended = bool(step.ended[0])
        seen = self._observations(step.row if ended else step.obs, "final_" if ended else "")
        self._seen = finals(step.row) if ended else step.obs
        agents = self.agents
        if ended:
            self.agents = []
        return (
            seen,
            self._rewards(step),
            dict.fromkeys(agents, bool(step.terminated[0])),
            dict.fromkeys(agents, bool(step.truncated[0])),
            {agent: {key: value[0] for key, value in step.info.items()} for agent in agents},
        )

    def _observations(self, values: dict[str, Array], prefix: str) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for group in self._env.groups:
            obs = values[group.key(f"{prefix}obs")][0]
            for place, agent in enumerate(group.agents):
                seen[agent] = obs[place]
                if group.avail:
                    mask = values[group.key(f"{prefix}avail_actions")][0, place].astype(np.int8)
                    seen[agent] = {"observation": obs[place], "action_mask": mask}
        return seen

    def _rewards(self, step: Step) -> dict[str, float]:
        if self._env.shared_reward:
            return dict.fromkeys(self.possible_agents, float(step.row["reward"][0]))
        return {
            agent: float(step.row[group.key("reward")][0, place])
            for group in self._env.groups
            for place, agent in enumerate(group.agents)
        }

    def state(self) -> Array:
        """The global state."""
        if not self._seen:
            raise OptionError("reset", "be called before state", "state")
        if self._env.state_space is None:  # PettingZoo's own way to say that there is none
            raise NotImplementedError(f"{self._env.name} was made without a state: make it with state=True")
        return self._seen["state"][0]

    def render(self) -> Array:
        """An image, RGB bytes."""
        return self._env.render(0)

    def close(self) -> None:
        """Close it."""
        self._env.close()


def _copy(space: Space[Any]) -> Space[Any]:
    """A copy of a space, so that agents' samples are independent."""
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low, space.high, space.shape, space.dtype.type)
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n), start=int(space.start))
    raise OptionError("space", "be a Box or Discrete", space)
