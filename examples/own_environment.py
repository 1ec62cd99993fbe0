"""An environment of one's own, registered by a name: then every algorithm and command trains on it.

python examples/own_environment.py
cd examples && relive train --import own_environment dqn ferry --option width=7 --steps 30000
"""

import argparse

import gymnasium as gym
import numpy as np

import relive
from relive import envs
from relive.agents.dqn import DQNConfig


class Ferry(gym.Env):
    """Row to the mark on the other bank of a river that carries the boat along.

    Actions: row straight on, upstream, downstream. Observations: place across, place along, mark, current.
    """

    observation_space = gym.spaces.Box(-2.0, 2.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, width: int = 5) -> None:  # options are arguments: --option width=7, env_options={"width": 7}
        self.width = width

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.across, self.along, self.time = 0, 0.0, 0
        self.mark, self.current = self.np_random.uniform(-1, 1), self.np_random.choice([-0.2, 0.0, 0.2])
        return self._obs(), {}

    def step(self, action):
        self.time += 1
        self.across += int(action == 0)
        self.along = float(np.clip(self.along + self.current + (0.0, -0.3, 0.3)[action], -2, 2))
        landed = self.across >= self.width
        reward = 1.0 - abs(self.along - self.mark) if landed else -0.02
        return self._obs(), reward, landed, self.time >= 10 * self.width, {}

    def _obs(self):
        return np.array([self.across / self.width, self.along, self.mark, self.current], np.float32)


envs.register(
    "ferry", Ferry, "Row to the mark on the other bank."
)  # at import, so that actors and resumed runs know it


class Print:
    """Prints every evaluation: a callback has any of on_step, on_update, on_evaluate and on_save."""

    def on_evaluate(self, run, metrics):
        print(f"{run.steps:,} steps  return {metrics['return']:.2f}  length {metrics['length']:.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30_000)
    steps = parser.parse_args().steps
    config = DQNConfig(gamma=0.95, epsilon_steps=steps // 3, learning_starts=500, hidden=(64, 64))
    relive.train(
        config,
        env="ferry",
        steps=steps,
        eval_every=steps // 5,
        eval_episodes=50,
        video=False,
        callbacks=[Print()],
    )
