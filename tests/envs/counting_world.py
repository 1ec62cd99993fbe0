"""A Gymnasium environment that counts its steps, and rows of it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import relive as rl


class Counter(gymnasium.Env[Any, Any]):
    """Shows episode and time. Episodes last ``length`` steps, and end by themselves or by the clock in turn."""

    def __init__(self, length: int = 3, nested: bool = False) -> None:
        self.length = length
        self.nested = nested
        box = spaces.Box(-1, 1e6, (2,), np.float32)
        self.observation_space = spaces.Dict(at=box, pair=spaces.Tuple([spaces.Discrete(9), box])) if nested else box
        self.action_space = spaces.Tuple([spaces.Discrete(3), box]) if nested else spaces.Discrete(3, start=1)
        self.episode = -1

    def _see(self) -> Any:
        at = np.array([self.episode, self.time], np.float32)
        return {"at": at, "pair": (self.time, at * 10)} if self.nested else at

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode += 1
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.time += 1
        over = self.time >= self.length
        by_itself = over and self.episode % 2 == 0
        return self._see(), float(self.time), by_itself, over and not by_itself, {"clock": self.time}

    def render(self) -> Any:
        return None


def check_counts(batch: rl.Batch, key: str = "obs", length: int | None = None) -> None:
    """What follows a step is one later in the same episode."""
    obs, after = batch[key][:, 0], batch[f"next_{key}"][:, 0]
    np.testing.assert_array_equal(after[:, 0], obs[:, 0])
    np.testing.assert_array_equal(after[:, 1], obs[:, 1] + 1)
    np.testing.assert_array_equal(batch.reward[:, 0], after[:, 1])
