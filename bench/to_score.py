"""CPU seconds until agents cover their landmarks: a return of -13 on simple_spread, for relive and others.

python bench/to_score.py --agilerl .venv-agilerl/bin/python --report docs     (an hour; --most SECONDS for each)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent / "trainers"
SCORE = -13.0
PAGE = """# CPU seconds to a score

Written by `python bench/to_score.py` on {day}: trainings on simple_spread until an evaluation without exploration
reaches {score:g} an agent, or for {most:g} CPU seconds. CPU time is of training alone, one thread each; an evaluation
is of 40 episodes (ours 100), so the first that happens to reach the score ends a training. relive's settings are the
defaults, but MADDPG steps 100 environments (64 by default) and has continuous actions, the others discrete ones.

{table}

![returns by CPU seconds](../images/to_score.png)

Read the others' lines as speeds with a return beside them, not as what those projects reach: nobody tuned them here.
The plain loops (`bench/trainers/run_plain_*.py`) do EPyMARL's work to be timed against it; they lack its reward
standardisation, among other things that matter for a score, and their discount is .99 where ours is .95. QMIX explores
as PyMARL does. AgileRL's MADDPG has its own defaults but for the networks (hidden layers of 64), 16 environments and a
batch of 1,024 every 100 steps, as in [training](train.md), and no evolution. All of them play mpe2's simple_spread,
relive its own vectorised one, which tests hold equal.
"""


@dataclass(frozen=True)
class Course:
    """Who trains, how it is started, and the steps between evaluations."""

    label: str
    python: str
    script: str
    arguments: tuple[object, ...]
    every: int
    ours: bool = False

    def go(self, seed: int, most: float) -> np.ndarray:
        """CPU seconds, steps and returns, ``[N, 3]``."""
        ask = (SCORE, most, self.every)
        more = (seed, *ask) if self.ours else ("--course", *ask)
        command = [self.python, str(HERE / self.script), *map(str, (*self.arguments, *more))]
        quiet = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "BENCH_SEED": str(seed)}
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        lines = [line.split() for line in done.stdout.splitlines()]
        if not lines:
            raise SystemExit(f"{self.script} does not run with {self.python}: {done.stderr[-2000:]}")
        found = np.array(lines, float)
        reached = found[-1, 0] if found[-1, 2] >= SCORE else float("inf")
        print(f"{self.label}, seed {seed}: {reached:.0f} CPU seconds, {found[-1, 1]:.0f} steps", flush=True)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agilerl", metavar="PYTHON", help="a Python that has AgileRL")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where bench/to_score.md and the picture go")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--most", type=float, default=900.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    mine = (sys.executable, "run_relive_course.py")
    courses = [
        Course("relive MADDPG", *mine, ("maddpg", 100), 20_000, ours=True),
        Course("relive QMIX", *mine, ("qmix", 32), 10_000, ours=True),
        Course("relive MAPPO", *mine, ("mappo", 128), 20_000, ours=True),
        Course("plain loop QMIX", sys.executable, "run_plain_qmix.py", ("simple_spread", 0), 10_000),
        Course("plain loop MAPPO", sys.executable, "run_plain_mappo.py", ("simple_spread", 10, 4, 0), 20_000),
    ]
    if asked.agilerl:
        courses.append(Course("AgileRL MADDPG", asked.agilerl, "run_agilerl.py", (1024, 100, 16, 0), 20_000))
    else:
        print("AgileRL is left out: no Python for it was named")
    with ThreadPoolExecutor(asked.workers) as pool:
        going = {c.label: [pool.submit(c.go, seed, asked.most) for seed in asked.seeds] for c in reversed(courses)}
        curves = {course.label: [each.result() for each in going[course.label]] for course in courses}
    lines = ["| | CPU seconds, every seed | steps, every seed |", "|---|---|---|"]
    for label, runs in curves.items():
        seconds = ", ".join(f"{c[-1, 0]:.0f}" if c[-1, 2] >= SCORE else f"not in {asked.most:g}" for c in runs)
        steps = ", ".join(f"{c[-1, 1] / 1000:.0f}k" if c[-1, 2] >= SCORE else "-" for c in runs)
        lines.append(f"| {label} | {seconds} | {steps} |")
    print("\n".join(lines))
    if asked.report:
        draw(curves, asked.report / "images/to_score.png")
        page = PAGE.format(day=date.today(), score=SCORE, most=asked.most, table="\n".join(lines))
        (asked.report / "bench/to_score.md").write_text(page)


def draw(curves: dict[str, list[np.ndarray]], path: Path) -> None:
    """Every training as a line, by CPU seconds."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for index, (label, runs) in enumerate(curves.items()):
        for seed, run in enumerate(runs):
            style = "-" if label.startswith("relive") else "--"
            axes.plot(run[:, 0], run[:, 2], style, color=f"C{index}", lw=1.3, label=label if seed == 0 else None)
    axes.axhline(SCORE, color="0.6", lw=0.8)
    axes.set(xscale="log", xlabel="CPU seconds", ylabel="return of an agent", title="simple_spread")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
