"""A world whose agents leave one after the other, with rewards of very different sizes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

__all__ = ["parallel_env"]


class Leaving(ParallelEnv):  # type: ignore[type-arg, misc]
    """Agent i leaves after a few steps, by chance; the episode ends with the last, or is cut off at eight."""

    metadata: ClassVar[dict[str, Any]] = {"name": "leaving"}
    possible_agents: ClassVar[list[str]] = ["bee_0", "bee_1", "bee_2"]
    sizes: ClassVar[dict[str, float]] = {"bee_0": 1.0, "bee_1": 50.0, "bee_2": -3.0}

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.random = np.random.default_rng(0)

    def observation_space(self, _agent: str) -> Any:
        return spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def action_space(self, _agent: str) -> Any:
        return spaces.Discrete(3)

    def _see(self, agents: list[str]) -> dict[str, Any]:
        return {agent: np.array([self.time, self.leaves[agent]], np.float32) / 8 for agent in agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.time, self.agents = 0, list(self.possible_agents)
        self.leaves = {agent: int(self.random.integers(1, 12)) for agent in self.agents}
        return self._see(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        acted, self.time = self.agents, self.time + 1
        rewards = {agent: self.sizes[agent] * (1.0 + int(actions[agent]) + self.time / 8) for agent in acted}
        terminated = {agent: self.time >= self.leaves[agent] for agent in acted}
        cut = self.time >= 8
        truncated = {agent: cut and not terminated[agent] for agent in acted}
        self.agents = [] if cut else [agent for agent in acted if not terminated[agent]]
        return self._see(acted), rewards, terminated, truncated, {agent: {} for agent in acted}


def parallel_env() -> Leaving:
    return Leaving()
