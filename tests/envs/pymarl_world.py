"""A small environment with PyMARL's methods, in the old and the new way."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

SLEEP = 600  # seconds that one sleeps who is told to


class Old:
    """As SMAC: ``reward, terminated, info``; the limit shows in the info only; ``seed()`` tells."""

    def __init__(
        self, agents: int = 2, limit: int = 4, wins_at: int | None = None, own: bool = False, **_: Any
    ) -> None:
        self.n_agents, self.episode_limit, self.wins_at, self.own = agents, limit, wins_at, own
        self.episode = self.time = 0
        self.taken: list[list[int]] = []

    def seed(self) -> int:
        return 3

    def reset(self) -> Any:
        self.episode += 1
        self.time = 0
        return self.get_obs(), self.get_state()

    def _advance(self, actions: Any) -> tuple[Any, bool, bool, dict[str, Any]]:
        assert all(isinstance(action, int) for action in actions)
        assert len(actions) == self.n_agents
        self.taken.append(list(actions))
        self.time += 1
        if actions[0] == 3:
            raise RuntimeError("action 3 breaks the world")
        if actions[0] == 4:
            os._exit(7)
        if actions[0] == 5:
            time.sleep(SLEEP)
        won = self.wins_at is not None and self.time >= self.wins_at
        cut = not won and self.time >= self.episode_limit
        reward = [float(self.time)] * self.n_agents if self.own else float(self.time)
        return reward, won, cut, {"battle_won": won} if won or cut else {}

    def step(self, actions: Any) -> Any:
        reward, won, cut, info = self._advance(actions)
        if cut:
            info["episode_limit"] = True
        return reward, won or cut, info

    def get_obs(self) -> Any:
        return [np.array([self.episode, self.time, agent], np.float64) for agent in range(self.n_agents)]

    def get_state(self) -> Any:
        return np.array([self.episode, self.time])

    def get_avail_actions(self) -> Any:
        return [[int((action + self.time) % 2 == 0 or action > 2) for action in range(6)] for _ in range(self.n_agents)]

    def get_env_info(self) -> dict[str, Any]:
        return {
            "state_shape": 2,
            "obs_shape": 3,
            "n_actions": 6,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def close(self) -> None:
        pass


class Calm(Old):
    """What breaks the world may not be done."""

    def get_avail_actions(self) -> Any:
        return [[allowed * (action < 3) for action, allowed in enumerate(row)] for row in super().get_avail_actions()]


class New(Old):
    """As EPyMARL's newer ones: ``obs, reward, terminated, truncated, info``, and a seed at reset."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.episode = seed
        super().reset()
        return self.get_obs(), {}

    def step(self, actions: Any) -> Any:
        reward, won, cut, info = self._advance(actions)
        return self.get_obs(), reward, won, cut, info


class Sown(Old):
    """Takes a seed by a method."""

    def seed(self, seed: int) -> None:  # type: ignore[override]
        self.episode = seed
