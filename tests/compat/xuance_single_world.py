"""Environments for the tests of XuanCe's memories for one agent."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from relive.compat.xuance.v1_1 import memory_tools as xm

BOX = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
ACT = gymnasium.spaces.Discrete(5)
IMAGE = gymnasium.spaces.Box(0, 255, (8, 8, 4), np.uint8)
NESTED = gymnasium.spaces.Dict(
    {"camera": gymnasium.spaces.Box(0, 255, (2, 2), np.uint8), "joints": gymnasium.spaces.Tuple((BOX, ACT))}
)


class World:
    """Environments whose every number says where it came from, with episodes that end at different times."""

    def __init__(self, n_envs: int, seed: int = 0) -> None:
        self.n_envs = n_envs
        self.random = np.random.default_rng(seed)
        self.t = 0

    def step(self) -> dict[str, Any]:
        self.t += 1
        envs = np.arange(self.n_envs)
        obs = np.stack([envs, np.full(self.n_envs, self.t), np.zeros(self.n_envs)], axis=1).astype(np.float32)
        return {
            "obs": obs,
            "acts": self.random.integers(0, 5, self.n_envs),
            "rews": self.random.normal(size=self.n_envs).astype(np.float32),
            "value": self.random.normal(size=self.n_envs).astype(np.float32),
            "terminals": self.random.random(self.n_envs) < 0.15,
            "truncations": self.random.random(self.n_envs) < 0.1,
            "next_obs": obs + np.array([0, 0, 1], np.float32),
        }


def per(n_envs: int = 1, n_size: int = 4, batch_size: int = 64, alpha: float = 1.0, steps: int = 4) -> Any:
    buffer = xm.PerOffPolicyBuffer(BOX, ACT, None, n_envs, n_size, batch_size, alpha, seed=0)
    for t in range(steps):
        obs = np.full((n_envs, 3), t, np.float32)
        buffer.store(obs, np.zeros(n_envs, int), np.full(n_envs, t, np.float32), np.zeros(n_envs, bool), obs)
    return buffer


def on_policy(n_envs: int = 1, n_size: int = 4, **options: Any) -> Any:
    return xm.DummyOnPolicyBuffer(BOX, ACT, None, n_envs, n_size, **options)


def store_on(buffer: Any, reward: float = 1.0, terminal: bool = False, **more: Any) -> None:
    n = buffer.n_envs
    obs, row = np.zeros((n, 3), np.float32), np.full(n, reward, np.float32)
    buffer.store(obs, np.zeros(n, int), row, np.zeros(n, np.float32), np.full(n, terminal), **more)
