"""recollect's QMIX: its own trainer, without evaluation and checkpoints."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from clock import Clock

from recollect.agents.qmix import QMIXConfig
from recollect.cli.process import settle_process
from recollect.train import run


def main() -> None:
    env, warm = sys.argv[1], int(sys.argv[2])
    # All play by chance, so that episodes are alike for everyone.
    config = QMIXConfig(**{**QMIXConfig().presets["pymarl"], "optimizer": "adam", "eps": 0, "epsilon_end": 1.0})
    clock = Clock(warm, look_every=25)
    settle_process(1)
    with tempfile.TemporaryDirectory() as folder:
        run(
            config,
            env=env,
            folder=Path(folder) / "run",
            progress=lambda *_: clock.tick(config.default_num_envs),
            steps=10**9,
            eval_every=10**9,
            save_every=0,
            kernels="--no-kernels" not in sys.argv,
        )


main()
