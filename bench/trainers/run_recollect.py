"""recollect: its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

import tempfile
from pathlib import Path

from clock import Clock, arguments

from recollect.agents.maddpg import MADDPGConfig
from recollect.train import run


def main() -> None:
    asked = arguments()
    clock = Clock(asked["warm"], look_every=5)
    config = MADDPGConfig(batch=asked["batch"], update_every=asked["every"], warmup=asked["batch"], capacity=200_000)
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
            env_options={"continuous_actions": True},
        )


main()
