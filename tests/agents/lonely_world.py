"""A world of one agent whose episodes end or are cut off, with choices that start at two, and others like it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from relive import envs
from relive.envs.one_agent import OneAgent

__all__ = ["lonely"]


class Lonely(gymnasium.Env[Any, Any]):
    """Rewards of any size; an episode ends after a few steps by chance, or is cut off at six."""

    def __init__(self, actions: str = "one", kind: str = "vector") -> None:
        self.observation_space = {
            "vector": spaces.Box(-9, 9, (3,), np.float32),
            "dict": spaces.Dict(where=spaces.Box(-9, 9, (2,), np.float32), what=spaces.Discrete(3)),
            "frame": spaces.Box(0, 255, (12, 12), np.uint8),
        }[kind]
        self.action_space = {
            "one": spaces.Discrete(3, start=2),
            "several": spaces.MultiDiscrete([2, 3]),
            "box": spaces.Box(-2, 3, (2,), np.float32),
        }[actions]
        self.kind = kind

    def _see(self) -> Any:
        where = np.array([self.time, self.ends, self.last], np.float32) / 6
        if self.kind == "dict":
            return {"where": where[:2], "what": self.time % 3}
        return where if self.kind == "vector" else np.full((12, 12), 10 * self.time + self.ends, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.ends, self.last = 0, int(self.np_random.integers(1, 10)), 0.0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.time, self.last = self.time + 1, float(np.sum(action))
        return self._see(), self.last - self.time, self.time >= self.ends, self.time >= 6, {}


gymnasium.register("Lonely-v0", entry_point=Lonely)


def lonely(num_envs: int = 3, **options: Any) -> OneAgent:
    """Some of these worlds, without an axis of agents."""
    return OneAgent(envs.make("Lonely-v0", num_envs=num_envs, **options))
