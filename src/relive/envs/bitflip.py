"""Bit flipping: a sparse-reward goal environment that random exploration hardly ever solves."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.built_in import BuiltIn
from relive.envs.dice import Dice
from relive.envs.interface import AgentGroup, Step, choices, plain_actions, schema_of
from relive.envs.options import positive
from relive.types import Actions, Array, ArrayLike

__all__ = ["BitFlip"]


@final
class BitFlip(BuiltIn):
    """Flip one bit a step until all match the goal; reward -1 a step until then (Andrychowicz et al. 2017).

    Observations follow Gymnasium's goal interface: ``observation`` and ``achieved_goal`` are the bits, ``desired_goal``
    the target bits.

    Args:
        bits: Number of bits.
        max_episode_steps: Steps after which an episode is truncated; 0: the number of bits.
    """

    def __init__(self, num_envs: int = 1, *, bits: int = 12, max_episode_steps: int = 0) -> None:
        self.name = "bitflip"
        self.num_envs: int = positive("num_envs", num_envs)
        self._bits: int = positive("bits", bits)
        self._limit: int = positive("max_episode_steps", max_episode_steps or bits)
        self.max_episode_steps: int | None = self._limit
        self.shared_reward = False
        self.state_space: Space[Any] | None = None
        names = ("observation", "achieved_goal", "desired_goal")
        view = spaces.Dict({name: spaces.Box(0.0, 1.0, (bits,), np.float32) for name in names})
        self.groups: tuple[AgentGroup, ...] = (AgentGroup("", ("agent",), view, spaces.Discrete(bits)),)
        self.schema = schema_of(self.groups, None, shared_reward=False)
        self.report_names: tuple[str, ...] = ("is_success",)
        self.bits = np.zeros((self.num_envs, bits), np.float32)
        self.goal = np.zeros((self.num_envs, bits), np.float32)
        self.time = np.zeros(self.num_envs, np.int64)

    def look(self) -> dict[str, Array]:
        """Bits as they are, and the goal."""
        now, goal = self.bits[:, None].copy(), self.goal[:, None].copy()
        return {"obs/observation": now, "obs/achieved_goal": now.copy(), "obs/desired_goal": goal}

    def _begin(self, which: Array, dice: Dice) -> None:
        dice.begin(which)
        drawn = dice.uniform(which, 2 * self._bits).T < 0.5
        self.bits[which], self.goal[which] = drawn[:, : self._bits], drawn[:, self._bits :]
        self.time[which] = 0

    def _own(self) -> dict[str, Array]:
        return {"bits": self.bits, "goal": self.goal, "time": self.time}

    def step(self, action: Actions) -> Step:
        """Flip a bit."""
        dice = self._started("step")
        given = plain_actions(self.groups, action)["action"]
        chosen = choices("action", given, (self.num_envs, 1), self._bits)
        before, every = self.look(), np.arange(self.num_envs)
        self.bits[every, chosen[:, 0]] = 1 - self.bits[every, chosen[:, 0]]
        self.time += 1
        reached = self.compute_terminated(self.bits, self.goal, {})
        truncated = (self.time >= self._limit) & ~reached
        reward = self.compute_reward(self.bits, self.goal, {}).astype(np.float32)
        row: dict[str, Array] = {**before, "action": chosen, "reward": reward[:, None]}
        row |= {"terminated": reached, "truncated": truncated}
        if (reached | truncated).any():
            row |= {key.replace("obs/", "final_obs/", 1): value for key, value in self.look().items()}
            self._begin(np.flatnonzero(reached | truncated), dice)
        return Step(self.look(), row, reached, truncated, {"is_success": reached})

    def compute_reward(self, achieved: ArrayLike, desired: ArrayLike, _info: object = None) -> Array:
        """0 where a goal was achieved, else -1, ``[B]``."""
        return np.asarray((np.asarray(achieved) == desired).all(axis=-1) - 1.0)

    def compute_terminated(self, achieved: ArrayLike, desired: ArrayLike, _info: object = None) -> Array:
        """Where a goal was achieved, ``[B]``."""
        return np.asarray((np.asarray(achieved) == desired).all(axis=-1))

    def render(self, index: int = 0) -> Array:
        """The bits, and below them the desired ones."""
        from relive.envs.canvas import Canvas

        canvas = Canvas((0, 0), (self._bits, 2.4), 30 * self._bits)
        for row, values in ((1.2, self.bits[index]), (0.1, self.goal[index])):
            for place, value in enumerate(values):
                canvas.box(place + 0.05, row, 0.9, 0.9, (66, 133, 244) if value else (224, 224, 224))
        return canvas.pixels()
