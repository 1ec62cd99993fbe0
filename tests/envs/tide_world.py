"""A PettingZoo environment whose agents come and go."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Tide(ParallelEnv):  # type: ignore[type-arg, misc]
    """Fish come and go: at time t those there are the ones whose span holds t; birds always are.

    A fish whose time is over is terminated. The episode is cut off at the limit, or ends when the last bird dies.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "tide"}
    spans: ClassVar[dict[str, tuple[int, int]]] = {"fish_0": (0, 3), "fish_1": (2, 9), "fish_2": (0, 9)}
    possible_agents: ClassVar[list[str]] = ["fish_0", "fish_1", "fish_2", "bird_0"]

    def __init__(
        self, *, limit: int = 6, bird_dies: int | None = None, masks: str = "obs", has_state: bool = True
    ) -> None:
        self.max_episode_steps, self.bird_dies, self.masks, self.has_state = limit, bird_dies, masks, has_state
        self.episode = 0
        box = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        fish: Any = box
        if masks == "obs":
            fish = spaces.Dict(observation=box, action_mask=spaces.MultiBinary(4))
        self.spaces = {agent: fish if agent.startswith("fish") else box for agent in self.possible_agents}
        self.choices = {
            a: spaces.Discrete(4) if a.startswith("fish") else spaces.Box(0, 1, (2,)) for a in self.possible_agents
        }
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return self.spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.choices[agent]

    def _there(self) -> list[str]:
        fish = [name for name, (first, last) in self.spans.items() if first <= self.time < last]
        return [*fish, "bird_0"]

    def _mask(self) -> Any:
        return (np.arange(4) != self.time % 4).astype(np.int8)

    def _see(self, agents: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        obs: dict[str, Any] = {}
        infos: dict[str, Any] = {agent: {"t": self.time, "word": "x"} for agent in agents}
        for agent in agents:
            value = np.array([self.episode, self.time, self.possible_agents.index(agent) + 1], np.float32)
            obs[agent] = value
            if agent.startswith("fish") and self.masks == "obs":
                obs[agent] = {"observation": value, "action_mask": self._mask()}
            if agent.startswith("fish") and self.masks == "info":
                infos[agent]["action_mask"] = self._mask()
        return obs, infos

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.episode += 1
        self.time = 0
        self.agents = self._there()
        return self._see(self.agents)

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        for agent, action in actions.items():
            assert self.choices[agent].contains(action), action
            if agent.startswith("fish") and self.masks:
                assert self._mask()[action]
        acted = self.agents
        self.time += 1
        there = self._there()
        dead = self.bird_dies is not None and self.time >= self.bird_dies
        over = self.time >= self.max_episode_steps
        terminated = {agent: dead or agent not in there for agent in acted}
        truncated = {agent: over and not terminated[agent] for agent in acted}
        rewards = {agent: float(self.time) for agent in acted}
        self.agents = [] if dead or over else there
        obs, infos = self._see([*acted, *(agent for agent in self.agents if agent not in acted)])
        return obs, rewards, terminated, truncated, infos

    def state(self) -> Any:
        if not self.has_state:
            raise NotImplementedError
        return np.array([self.episode, self.time], np.float32)
