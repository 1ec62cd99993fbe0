"""Wall-clock steps a second with actors in processes of their own, against none.

python bench/actors.py --report docs/bench

MADDPG on two environments: simple_spread, which costs next to nothing, and a corridor that takes a millisecond of CPU
a step. Both ways take turns; medians. Steps are counted from the first fifth of a run on, so that starting processes
does not count.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import relive
from relive import envs
from relive.agents.maddpg import MADDPGConfig
from relive.cli.process import settle_process

PAGE = """# Actors: speed

Written by `python bench/actors.py --report docs/bench` on {day}, {machine} with {cores} cores, Python {python}.

Environment steps a second of wall-clock time, MADDPG with its default settings (`--actors 0` and `--actors 2`), medians
of {rounds} runs each that took turns. The first environment costs next to nothing; in the second every step computes
for a millisecond.

{table}

The machine is shared: read the ratios.
"""


class Slow(gymnasium.Env):
    """A corridor whose every step computes for a while."""

    observation_space = gymnasium.spaces.Box(0, 1, (8,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, milliseconds: float = 1.0) -> None:
        self.milliseconds, self.at, self.time = milliseconds, 0, 0

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self.at = self.time = 0
        return np.zeros(8, np.float32), {}

    def step(self, action: Any) -> Any:
        until = time.thread_time() + self.milliseconds / 1000
        while time.thread_time() < until:
            pass
        self.at, self.time = max(0, self.at + (1 if action else -1)), self.time + 1
        return np.full(8, self.at / 10, np.float32), float(self.at == 10), self.at == 10, self.time == 50, {}


envs.register("slow", Slow)


@dataclass(frozen=True)
class Work:
    """Something to train on."""

    title: str
    env: str
    num_envs: int
    steps: int


WORK = (
    Work("simple_spread", "simple_spread", 64, 120_000),
    Work("a millisecond a step", "slow", 8, 12_000),
)


class Watch:
    """The time at which a run passed its first fifth."""

    def __init__(self, steps: int) -> None:
        self._from, self.begun = steps // 5, (0.0, 0)

    def on_step(self, state: Any) -> None:
        """Look at the clock once."""
        if not self.begun[1] and state.steps >= self._from:
            self.begun = (time.perf_counter(), state.steps)


def speed(work: Work, actors: int) -> float:
    """Steps a second."""
    watch = Watch(work.steps)
    config = MADDPGConfig(learning_starts=work.steps // 10, capacity=100_000)
    how: dict[str, Any] = {"eval_every": 10**9, "eval_episodes": 1, "save_every": 0, "video": False, "log": ()}
    ended: list[float] = []

    class End:
        def on_step(self, state: Any) -> None:
            if state.steps >= work.steps and not ended:
                ended.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        relive.train(
            config,
            work.env,
            folder=Path(folder) / "run",
            steps=work.steps,
            num_envs=work.num_envs,
            actors=actors,
            callbacks=[watch, End()],
            **how,
        )
    return (work.steps - watch.begun[1]) / (ended[0] - watch.begun[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where to write actors.md")
    asked = parser.parse_args()
    settle_process(1)
    lines = ["| environment | no actors | two actors | times as fast |", "|---|---|---|---|"]
    for work in WORK:
        found: dict[int, list[float]] = {0: [], 2: []}
        for _ in range(asked.rounds):
            for actors, speeds in found.items():
                speeds.append(speed(work, actors))
        alone, beside = (statistics.median(speeds) for speeds in found.values())
        lines.append(f"| {work.title} | {alone:,.0f} | {beside:,.0f} | {beside / alone:.2f} |")
        print(lines[-1], flush=True)
    if asked.report:
        about = {"day": date.today(), "machine": platform.machine(), "cores": os.cpu_count(), "rounds": asked.rounds}
        page = PAGE.format(table="\n".join(lines), python=platform.python_version(), **about)
        (asked.report / "actors.md").write_text(page)


if __name__ == "__main__":
    main()
