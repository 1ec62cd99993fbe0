"""Environment steps a CPU second of training MADDPG, against AgileRL and BenchMARL.

python bench/train.py --agilerl .venv-agilerl/bin/python --benchmarl .venv-benchmarl/bin/python --report docs/bench

Each stack trains in a process of its own, with the packages it wants; they take turns of some CPU seconds in one run.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent / "trainers"

PAGE = """# Training: speed

Written by `python bench/train.py` on {day}, {machine}, Python {python}, torch {torch}, AgileRL {agilerl},
BenchMARL {benchmarl} on VMAS {vmas}.

Environment steps a CPU second of MADDPG on simple_spread with continuous actions: acting, stepping, storing and
learning; no evaluation, no logs. All take turns of {seconds} CPU seconds, {rounds} rounds, one thread each; medians.
The machine is shared: read the ratios.

{table}

In brackets: how many times as fast recollect is. Goals: 25 times AgileRL and 3 times BenchMARL in the first row, 6
and 4 times in the second.

Policies and critics have two hidden layers of 64 units and each agent has its own. AgileRL's environments are mpe2's,
once a single one and once 16 in processes of their own, whose CPU time counts; its networks have a third layer of
8 units, which it asks for. BenchMARL and recollect step 100 environments in lockstep in the first row and 10 in the
second. BenchMARL's are of VMAS, whose policies give two numbers and not five; it collects ten steps of all before it
learns as often as they ask for.
"""


@dataclass(frozen=True)
class Task:
    """What is trained: rows of a batch, steps for each update, environments in lockstep, steps before it counts."""

    batch: int
    every: int
    envs: int
    warm: int

    def __str__(self) -> str:
        return f"batch {self.batch:,} every {f'{self.every} steps' if self.every > 1 else 'step'}"


TASKS = (Task(1024, 100, 100, 3_000), Task(256, 1, 10, 600))


class Player:
    """A stack in a process of its own."""

    def __init__(self, python: str, script: str, envs: int | None, task: Task) -> None:
        command = [python, str(HERE / script), *map(str, (task.batch, task.every, envs or task.envs, task.warm))]
        quiet = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env=quiet, text=True, **pipes)  # type: ignore[call-overload]
        if self._process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{script} does not run with {python}")

    def turn(self, seconds: float) -> float:
        """Steps a CPU second over one turn."""
        print(seconds, file=self._process.stdin, flush=True)
        steps, spent = self._process.stdout.readline().split()
        return int(steps) / float(spent)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agilerl", metavar="PYTHON", help="a Python that has AgileRL")
    parser.add_argument("--benchmarl", metavar="PYTHON", help="a Python that has BenchMARL and VMAS")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where to write train.md")
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    asked = parser.parse_args()
    rounds, seconds = (3, 2.0) if asked.quick else (7, 3.0)
    players: dict[str, tuple[str, str, int | None]] = {"recollect": (sys.executable, "run_recollect.py", None)}
    for name, script, envs in (
        ("AgileRL", "run_agilerl.py", 1),
        ("AgileRL, 16 environments", "run_agilerl.py", 16),
        ("BenchMARL", "run_benchmarl.py", None),
    ):
        python = asked.benchmarl if name == "BenchMARL" else asked.agilerl
        if python:
            players[name] = (python, script, envs)
        else:
            print(f"{name} is left out: no Python for it was named")
    lines = [f"| | {' | '.join(players)} |", "|---|" + "---|" * len(players)]
    for task in TASKS:
        playing = {name: Player(*how, task) for name, how in players.items()}
        speeds: dict[str, list[float]] = {name: [] for name in players}
        for _ in range(rounds):
            for name, player in playing.items():
                speeds[name].append(player.turn(seconds))
        for player in playing.values():
            player.close()
        medians = {name: statistics.median(found) for name, found in speeds.items()}
        ours = medians["recollect"]
        cells = [
            f"{speed:,.0f}" + (f" ({ours / speed:.1f})" if name != "recollect" else "")
            for name, speed in medians.items()
        ]
        lines.append(f"| {task} | {' | '.join(cells)} |")
        print(lines[-1])
    if asked.report:
        page = PAGE.format(
            day=date.today(),
            machine=platform.machine(),
            python=platform.python_version(),
            torch=version("torch"),
            agilerl=_version(asked.agilerl, "agilerl"),
            benchmarl=_version(asked.benchmarl, "benchmarl"),
            vmas=_version(asked.benchmarl, "vmas"),
            seconds=f"{seconds:g}",
            rounds=rounds,
            table="\n".join(lines),
        )
        (asked.report / "train.md").write_text(page)


def _version(python: str | None, package: str) -> str:
    if not python:
        return "(not here)"
    ask = f"from importlib.metadata import version; print(version('{package}'))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
