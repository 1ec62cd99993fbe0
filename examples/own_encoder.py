"""An encoder of one's own: a CNN that reads pictures of a ball to be caught.

python examples/own_encoder.py
cd examples && relive train iql gymnasium:own_encoder:Catch-v0 --encoder own_encoder:CNN
"""

import argparse

import gymnasium as gym
import numpy as np
from torch import nn

import relive
from relive.agents.qmix import QMIXConfig


class Catch(gym.Env):  # a ball falls down a picture; the paddle below goes left, stays or goes right to catch it
    observation_space, action_space = gym.spaces.Box(0, 255, (10, 10, 1), np.uint8), gym.spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.row, (self.ball, self.paddle) = 0, self.np_random.integers(10, size=2)
        return self.picture(), {}

    def step(self, action):
        self.row, self.paddle = self.row + 1, np.clip(self.paddle + action - 1, 0, 9)
        return self.picture(), float(self.row == 9 and abs(self.ball - self.paddle) <= 1), self.row == 9, False, {}

    def picture(self):
        cells = np.arange(100).reshape(10, 10, 1)
        return np.uint8(255) * np.isin(cells, (10 * self.row + self.ball, 90 + self.paddle))


class CNN(nn.Sequential):  # features [B, 32] of images [B, 10, 10, 1]
    def __init__(self, space):
        super().__init__(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 32), nn.ReLU())

    def forward(self, image):
        return super().forward(image.permute(0, 3, 1, 2) / 255)


gym.register("Catch-v0", lambda **_: Catch())
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    steps = parser.parse_args().steps
    config = QMIXConfig(mixer="none", encoder=CNN, recurrent=False, epsilon_steps=steps // 3, gamma=0.9, hidden=32)
    result = relive.train(
        config,
        env="gymnasium:Catch-v0",
        steps=steps,
        num_envs=16,
        eval_every=steps // 4,
        video=False,
    )
    print(f"return {result.metrics['return']:.2f}  everything else is in {result.folder}")
