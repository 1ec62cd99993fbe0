"""Environment steps a CPU second of training: MADDPG against AgileRL and BenchMARL, QMIX against EPyMARL's loop.

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

## MADDPG

Environment steps a CPU second on simple_spread with continuous actions: acting, stepping, storing and learning; no
evaluation, no logs. All take turns of {seconds} CPU seconds, {rounds} rounds, one thread each; medians.
The machine is shared: read the ratios.

{table}

In brackets: how many times as fast relive is. "Without kernels" is `--no-kernels`: the same modules by torch alone.
"Before" is an earlier relive whose gradients were derived by hand.

Policies and critics have two hidden layers of 64 units and each agent has its own. AgileRL's environments are mpe2's,
once a single one and once 16 in processes of their own, whose CPU time counts; its networks have a third layer of
8 units, which it asks for. BenchMARL and relive step 100 vectorised environments in the first row and 10 in the
second. BenchMARL's are of VMAS, whose policies give two numbers and not five; it collects ten steps of all before it
learns as often as they ask for.

## QMIX

Environment steps a CPU second with PyMARL's sizes: GRU of 64 units, mixer of 32, hypernetworks of 64, batches of 32
episodes, one update an episode. Beside it EPyMARL's loop written plainly in torch
(`bench/trainers/run_plain_qmix.py`): one environment, padded episodes, a step of the networks at a time; on
simple_spread with mpe2's world, on marines_4v4 with relive's. All play by chance, so that episodes are alike.
Medians of {rounds} turns, and the best turn of relive; in brackets how many times as fast relive is.

{mixing}

An update of these sizes takes 26 million operations for each step on
simple_spread, and 34 million on marines_4v4 if the dead are counted, which relive does not.
"""


@dataclass(frozen=True)
class Task:
    """What is trained: rows of a batch, steps for each update, vectorised environments, steps before it counts."""

    batch: int
    every: int
    envs: int
    warm: int

    def __str__(self) -> str:
        return f"batch {self.batch:,} every {f'{self.every} steps' if self.every > 1 else 'step'}"


TASKS = (Task(1024, 100, 100, 3_000), Task(256, 1, 10, 600))


class Player:
    """A stack in a process of its own."""

    def __init__(self, python: str, script: str, *arguments: object, folder: Path = HERE) -> None:
        command = [python, str(folder / script), *map(str, arguments)]
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
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="an earlier relive, set up by make")
    parser.add_argument("--qmix", action="store_true", help="only QMIX, printed")
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    asked = parser.parse_args()
    rounds, seconds = (3, 2.0) if asked.quick else (7, 3.0)
    if asked.qmix:
        mixed(rounds, seconds, asked.before)
        return
    players = {name: (python, "run_relive.py", None, *more) for name, (python, *more) in ours(asked.before).items()}
    for name, script, envs in (
        ("AgileRL", "run_agilerl.py", 1),
        ("AgileRL, 16 environments", "run_agilerl.py", 16),
        ("BenchMARL", "run_benchmarl.py", None),
    ):
        python = asked.benchmarl if name == "BenchMARL" else asked.agilerl
        if python:
            players[name] = (python, script, envs, HERE, ())
        else:
            print(f"{name} is left out: no Python for it was named")
    lines = [f"| | {' | '.join(players)} |", "|---|" + "---|" * len(players)]
    for task in TASKS:
        playing = {
            name: Player(python, script, task.batch, task.every, envs or task.envs, task.warm, *more, folder=folder)
            for name, (python, script, envs, folder, more) in players.items()
        }
        medians = {name: statistics.median(found) for name, found in played(playing, rounds, seconds).items()}
        first = medians["relive"]
        cells = [
            f"{speed:,.0f}" + (f" ({first / speed:.2g})" if name != "relive" else "") for name, speed in medians.items()
        ]
        lines.append(f"| {task} | {' | '.join(cells)} |")
        print(lines[-1])
    mixing = mixed(rounds, seconds, asked.before)
    if asked.report:
        versions = {name: version_of(asked.benchmarl, name) for name in ("benchmarl", "vmas")}
        versions["agilerl"] = version_of(asked.agilerl, "agilerl")
        page = page_of(PAGE, lines, rounds, seconds, mixing="\n".join(mixing), **versions)
        (asked.report / "train.md").write_text(page)


def played(playing: dict[str, Player], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Steps a CPU second of every turn, taken one after another."""
    speeds: dict[str, list[float]] = {name: [] for name in playing}
    for _ in range(rounds):
        for name, player in playing.items():
            speeds[name].append(player.turn(seconds))
    for player in playing.values():
        player.close()
    return speeds


def ours(before: Path | None) -> dict[str, tuple[str, Path, tuple[str, ...]]]:
    """relive with its kernels, by torch alone, and as it was before if a checkout of that is given."""
    found = {"relive": (sys.executable, HERE, ()), "without kernels": (sys.executable, HERE, ("--no-kernels",))}
    if before is not None:
        found["before"] = (str(before / ".venv/bin/python"), before / "bench/trainers", ())
    return found


def mixed(rounds: int, seconds: float, before: Path | None) -> list[str]:
    """QMIX beside the plain loop, as lines of a table."""
    stacks = ours(before)
    lines = [f"| | {' | '.join(stacks)} | plain loop | best turn |", "|---|" + "---|" * (len(stacks) + 2)]
    for env in ("simple_spread", "marines_4v4"):
        playing = {
            name: Player(python, "run_relive_qmix.py", env, 20_000, *more, folder=folder)
            for name, (python, folder, more) in stacks.items()
        }
        playing["plain loop"] = Player(sys.executable, "run_plain_qmix.py", env, 2_000)
        speeds = played(playing, rounds, seconds)
        medians = {name: statistics.median(found) for name, found in speeds.items()}
        first = medians["relive"]
        cells = [f"{s:,.0f}" + (f" ({first / s:.2g})" if name != "relive" else "") for name, s in medians.items()]
        lines.append(f"| {env} | {' | '.join(cells)} | {max(speeds['relive']):,.0f} |")
        print(lines[-1])
    return lines


def page_of(page: str, lines: list[str], rounds: int, seconds: float, **more: str) -> str:
    """A page with its table, and how that was measured."""
    return page.format(
        day=date.today(),
        machine=platform.machine(),
        python=platform.python_version(),
        torch=version("torch"),
        seconds=f"{seconds:g}",
        rounds=rounds,
        table="\n".join(lines),
        **more,
    )


def version_of(python: str | None, package: str) -> str:
    if not python:
        return "(not here)"
    ask = f"from importlib.metadata import version; print(version('{package}'))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
