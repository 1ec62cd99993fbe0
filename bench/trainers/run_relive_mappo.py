"""relive's MAPPO by its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

import sys

from clock import Clock

from ours import train
from relive.agents.mappo import MAPPOConfig


def main() -> None:
    env, envs, rollout, epochs, warm = sys.argv[1], *map(int, sys.argv[2:6])
    config = MAPPOConfig(hidden=(64, 64), rollout=rollout, epochs=epochs, minibatches=1)
    train(config, env, envs, Clock(warm, look_every=5))


main()
