"""relive's QMIX: its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

import sys

from clock import Clock

from ours import train
from relive.agents.qmix import QMIXConfig


def main() -> None:
    env, warm = sys.argv[1], int(sys.argv[2])
    # All play by chance, so that episodes are alike for everyone.
    config = QMIXConfig(**{**QMIXConfig().presets["pymarl"], "optimizer": "adam", "eps": 0, "epsilon_end": 1.0})
    train(config, env, config.default_num_envs, Clock(warm, look_every=25))


main()
