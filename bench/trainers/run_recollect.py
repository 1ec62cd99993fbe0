"""recollect: its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from clock import Clock, arguments

from recollect.agents.maddpg import MADDPGConfig
from recollect.cli.process import settle_process
from recollect.train import run


def main() -> None:
    asked = arguments()
    clock = Clock(asked["warm"], look_every=5)
    rows = {"batch_size": asked["batch"], "learning_starts": asked["batch"], "capacity": 200_000}
    config = MADDPGConfig(update_every=asked["every"], **rows)
    settle_process(1)
    with tempfile.TemporaryDirectory() as folder:
        run(
            config,
            env="simple_spread",
            folder=Path(folder) / "run",
            progress=lambda *_: clock.tick(asked["envs"]),
            steps=10**9,
            num_envs=asked["envs"],
            eval_every=10**9,
            save_every=0,
            kernels="--no-kernels" not in sys.argv,
            env_options={"continuous_actions": True},
        )


main()
