"""A whole training by relive's own trainer, up to a score: CPU seconds, steps and the return at every evaluation."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relive.agents.registry import find
from relive.cli.process import settle_process
from relive.training import RunConfig, train
from relive.training.callbacks import RunState


class Course:
    """Prints how far it is. What happens between an evaluation and the next step does not count."""

    def __init__(self, score: float, most: float) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._score, self._most, self._spent, self._last = score, most, 0.0, time.process_time()

    def on_step(self, _run: RunState) -> None:
        now = time.process_time()
        self._spent, self._last = self._spent + now - self._last, now

    def on_evaluate(self, state: RunState, metrics: Mapping[str, float]) -> None:
        print(self._spent, state.steps, metrics["return"], file=self._out)
        if metrics["return"] >= self._score or self._spent >= self._most:
            state.stop()
        self._last = time.process_time()


def main() -> None:
    name, envs, seed, score, most, every = sys.argv[1], *sys.argv[2:7]
    options: dict[str, Any] = {"continuous_actions": True} if name == "maddpg" else {}
    settle_process(1)
    settings = {"num_envs": int(envs), "seed": int(seed), "eval_every": int(every), "env_options": options}
    config = RunConfig(steps=10**8, save_every=0, video=False, **settings)
    with tempfile.TemporaryDirectory() as folder:
        course = Course(float(score), float(most))
        train(find(name), "simple_spread", folder=Path(folder) / "run", config=config, callbacks=(course,))


main()
