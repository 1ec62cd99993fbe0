"""relive's MADDPG: its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

from clock import Clock, arguments

from ours import train
from relive.agents.maddpg import MADDPGConfig


def main() -> None:
    asked = arguments()
    rows = {"batch_size": asked["batch"], "learning_starts": asked["batch"], "capacity": 200_000}
    config = MADDPGConfig(update_every=asked["every"], **rows)
    clock = Clock(asked["warm"], look_every=5)
    train(config, "simple_spread", asked["envs"], clock, env_options={"continuous_actions": True})


main()
