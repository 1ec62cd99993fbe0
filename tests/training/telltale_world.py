"""An environment whose observations say who they are: all numbers of one are the same, and count the lane's steps."""

import os
import random
import time

import gymnasium
import numpy as np

from relive import envs

WIDTH = 64
UNIT = 2.0**-14
"""What numbers are multiples of, so that they are small and exact."""


class Telltale(gymnasium.Env):
    """A count of steps, over and over; episodes of seven steps, of which every other one terminates."""

    observation_space = gymnasium.spaces.Box(-1e9, 1e9, (WIDTH,))
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, sleep: float = 0.0, fail_after: int = 0) -> None:
        self.sleep, self.fail_after = sleep, fail_after
        self.who = random.SystemRandom().randrange(1, 1 << 14)  # another in every process that makes it
        self.count = self.episode = self.time = 0

    def look(self) -> np.ndarray:
        seen = np.full(WIDTH, self.count * UNIT, np.float32)
        seen[0] = self.who * UNIT
        return seen

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.episode += 1
        self.count += 1
        return self.look(), {}

    def step(self, action):
        self.count, self.time = self.count + 1, self.time + 1
        if self.fail_after and self.count > self.fail_after:
            raise ValueError(f"broken on purpose in process {os.getpid()}")
        if self.sleep:
            time.sleep(self.sleep)
        over = self.time == 7
        return self.look(), self.count * UNIT, over and self.episode % 2 == 0, over and self.episode % 2 == 1, {}


envs.register("telltale", Telltale, "Says who it is.")
