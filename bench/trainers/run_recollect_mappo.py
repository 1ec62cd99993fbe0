"""recollect's MAPPO by its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from clock import Clock

from recollect.agents.mappo import MAPPOConfig
from recollect.cli.process import settle_process
from recollect.train import run


def main() -> None:
    env, envs, rollout, epochs, warm = sys.argv[1], *map(int, sys.argv[2:6])
    clock = Clock(warm, look_every=5)
    config = MAPPOConfig(hidden=(64, 64), rollout=rollout, epochs=epochs, minibatches=1)
    settle_process(1)
    with tempfile.TemporaryDirectory() as folder:
        run(
            config,
            env=env,
            folder=Path(folder) / "run",
            progress=lambda *_: clock.tick(envs),
            steps=10**9,
            num_envs=envs,
            eval_every=10**9,
            save_every=0,
            kernels="--no-kernels" not in sys.argv,
        )


main()
