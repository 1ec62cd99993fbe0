"""relive's own trainer under a clock: without evaluation and checkpoints, in one thread."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from clock import Clock

import relive
from relive.cli.process import settle_process


def train(algorithm: Any, env: str, envs: int, clock: Clock, **options: Any) -> None:
    """Train until the clock ends it; by torch alone if the command line has ``--no-kernels``."""
    settle_process(1)
    with tempfile.TemporaryDirectory() as folder:
        relive.train(
            algorithm,
            env=env,
            folder=Path(folder) / "run",
            progress=lambda *_: clock.tick(envs),
            steps=10**9,
            num_envs=envs,
            eval_every=10**9,
            save_every=0,
            kernels="--no-kernels" not in sys.argv,
            **options,
        )
