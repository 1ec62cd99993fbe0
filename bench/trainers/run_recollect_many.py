"""recollect's MASAC, ISAC, MFQ, MFAC or COMA on simple_spread with XuanCe's settings, without evaluation."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from clock import Clock

from recollect.agents.registry import find
from recollect.cli.process import settle_process
from recollect.train import run

ENVS = 16


def main() -> None:
    name, warm = sys.argv[1], int(sys.argv[2])
    clock = Clock(warm, look_every=25)
    algorithm: Any = find(name)
    settings = dict(algorithm.presets["xuance"])
    if "update_every" in vars(algorithm):
        settings["update_every"] = 400  # of 16 environments, 25 steps each
    settle_process(1)
    with tempfile.TemporaryDirectory() as folder:
        run(
            replace(algorithm, **settings),
            env="simple_spread",
            folder=Path(folder) / "run",
            progress=lambda *_: clock.tick(ENVS),
            steps=10**9,
            num_envs=ENVS,
            eval_every=10**9,
            save_every=0,
            env_options={"continuous_actions": name in ("masac", "isac")},
            kernels="--no-kernels" not in sys.argv,
        )


main()
