"""Cooperative matrix games of two agents (Claus and Boutilier 1998)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.dice import seeds_for
from relive.envs.interface import AgentGroup, Step, choices, plain_actions, schema_of
from relive.envs.options import positive
from relive.errors import OptionError
from relive.types import Actions, Array

__all__ = ["Climbing", "Penalty"]


@final
class MatrixGame:
    """A repeated cooperative matrix game with a constant observation."""

    def __init__(self, name: str, payoff: Array, num_envs: int, max_episode_steps: int) -> None:
        self.name = name
        self.payoff = np.asarray(payoff, np.float32)
        """The shared reward, by the first and the second agent's action."""
        self.num_envs: int = positive("num_envs", num_envs)
        self._limit: int = positive("max_episode_steps", max_episode_steps)
        self.max_episode_steps: int | None = self._limit
        self.shared_reward = True
        self.state_space: Space[Any] | None = None
        view, actions = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(len(self.payoff))
        self.groups: tuple[AgentGroup, ...] = (AgentGroup("", ("first", "second"), view, actions),)
        self.schema = schema_of(self.groups, None, shared_reward=True)
        self.time = np.zeros(self.num_envs, np.int64)
        self.last = np.full((self.num_envs, 2), -1)
        """The last joint action, ``[E, 2]``; -1 before the first step."""

    def _seen(self) -> dict[str, Array]:
        return {"obs": np.ones((self.num_envs, 2, 1), np.float32)}

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Reset all environments and return their observations."""
        seeds_for(seed, self.num_envs)  # the game is deterministic, but an invalid seed is an error
        self.time[:] = 0
        return self._seen()

    def step(self, action: Actions) -> Step:
        """Play the joint action."""
        given = plain_actions(self.groups, action)["action"]
        chosen = choices("action", given, (self.num_envs, 2), len(self.payoff))
        self.last[:] = chosen
        self.time += 1
        terminated = self.time >= self._limit  # nothing is left to play for
        seen = self._seen()
        row: dict[str, Array] = {**seen, "action": chosen, "reward": self.payoff[chosen[:, 0], chosen[:, 1]]}
        row |= {"terminated": terminated, "truncated": np.zeros_like(terminated)}
        if terminated.any():
            row["final_obs"] = self._seen()["obs"]
        self.time[terminated] = 0
        return Step(self._seen(), row, terminated, np.zeros_like(terminated), {})

    def render(self, index: int = 0) -> Array:
        """The payoff matrix, with the last joint action."""
        from relive.envs.canvas import Canvas

        size = len(self.payoff)
        canvas = Canvas((-0.5, 0), (size + 0.1, size + 0.5), 300)
        for first in range(size):
            canvas.text(-0.25, size - first - 0.5, str(first), anchor="mm")
            canvas.text(first + 0.5, size + 0.25, str(first), anchor="mm")
            for second in range(size):
                chosen = (first, second) == tuple(self.last[index])
                canvas.box(
                    second + 0.03, size - first - 0.97, 0.94, 0.94, (255, 224, 130) if chosen else (236, 239, 241)
                )
                canvas.text(second + 0.5, size - first - 0.5, f"{self.payoff[first, second]:g}", size=15, anchor="mm")
        return canvas.pixels()

    def close(self) -> None:
        """Nothing to release."""

    def snapshot(self) -> dict[str, Array]:
        """The full state, for ``restore``."""
        return {"time": self.time.copy()}

    def restore(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """Restore a snapshot and return the observations."""
        given = np.asarray(state["time"])
        if given.shape != self.time.shape:
            raise OptionError("state['time']", f"have shape {self.time.shape}", given.shape)
        self.time[:] = given
        return self._seen()


def Climbing(num_envs: int = 1, *, max_episode_steps: int = 1) -> MatrixGame:  # noqa: N802 - named as the others are
    """The climbing game: the best joint action pays 11, but deviating from it alone costs both 30.

    Args:
        max_episode_steps: Rounds of an episode.
    """
    return MatrixGame("climbing", np.array([[11, -30, 0], [-30, 7, 6], [0, 0, 5]]), num_envs, max_episode_steps)


def Penalty(num_envs: int = 1, *, penalty: float = -100.0, max_episode_steps: int = 1) -> MatrixGame:  # noqa: N802
    """The penalty game: two joint actions pay 10, and miscoordination is punished.

    Args:
        penalty: Reward of miscoordination, at most 0.
        max_episode_steps: Rounds of an episode.
    """
    if not isinstance(penalty, (int, float)) or isinstance(penalty, bool) or not penalty <= 0:
        raise OptionError("penalty", "be a number of at most 0", repr(penalty))
    return MatrixGame("penalty", np.array([[penalty, 0, 10], [0, 2, 0], [10, 0, penalty]]), num_envs, max_episode_steps)
