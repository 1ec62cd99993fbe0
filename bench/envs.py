"""Steps a CPU second of the environments, against mpe2 and VMAS.

python bench/envs.py --report docs/bench
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from relive import envs
from relive.envs import particle
from relive.envs.marines import players

SIZES = (1, 64, 256, 1024)
EPISODE = 25

PAGE = """# Environments: speed

Written by `make bench` on {day}, {machine}, Python {python}, numpy {numpy}, mpe2 {mpe2}, VMAS {vmas}.

Steps of one environment a CPU second: 64 environments that step once are 64 steps. All take turns in one run of
{rounds} rounds, one thread, episodes of 25 steps and their resets included, actions drawn beforehand; medians. The
machine is shared: read the ratios.

## Particle worlds, discrete actions

{particle}

In brackets: times mpe2. Goals: simple_spread 150 times at 64 environments and 3 times at 1; every scenario 50 times
at 64.

## simple_spread beside VMAS (torch, CPU, one thread)

{vmas_table}

## Marines

Played by chance; the player's time is not counted. Goal: 20,000 at 64 environments for 4 against 4.

{marines}
"""

Turn = Callable[[float], tuple[int, float]]
"""Plays for about so many CPU seconds; returns steps and the seconds they took."""


def ours(name: str, count: int) -> Turn:
    env = envs.make(name, num_envs=count)
    env.reset(seed=0)
    random = np.random.default_rng(0)
    ready = [
        {g.key("action"): random.integers(0, g.action_space.n, (count, len(g))) for g in env.groups}
        for _ in range(EPISODE)
    ]

    def turn(seconds: float) -> tuple[int, float]:
        steps, start = 0, time.process_time()
        while (spent := time.process_time() - start) < seconds:
            for action in ready:
                env.step(action)
            steps += EPISODE * count
        return steps, spent

    return turn


def theirs(name: str) -> Turn:
    version = 4 if name == "simple_speaker_listener" else 3
    env: Any = importlib.import_module(f"mpe2.{name}_v{version}").parallel_env(max_cycles=EPISODE)
    env.reset(seed=0)
    random = np.random.default_rng(0)
    ready = [{a: int(random.integers(0, env.action_space(a).n)) for a in env.possible_agents} for _ in range(EPISODE)]

    def turn(seconds: float) -> tuple[int, float]:
        steps, start = 0, time.process_time()
        while (spent := time.process_time() - start) < seconds:
            env.reset()
            for action in ready:
                env.step(action)
            steps += EPISODE
        return steps, spent

    return turn


def vmas_turn(count: int) -> Turn | None:
    try:
        import torch
        import vmas
    except ImportError:
        return None
    torch.set_num_threads(1)
    env = vmas.make_env("simple_spread", num_envs=count, device="cpu", continuous_actions=False, seed=0)
    ready = [[torch.randint(0, 5, (count,)) for _ in env.agents] for _ in range(EPISODE)]

    def turn(seconds: float) -> tuple[int, float]:
        steps, start = 0, time.process_time()
        while (spent := time.process_time() - start) < seconds:
            env.reset()
            for action in ready:
                env.step(action)
            steps += EPISODE * count
        return steps, spent

    return turn


def marines(name: str, count: int) -> Turn:
    env = envs.make(name, num_envs=count)
    state = {"seen": env.reset(seed=0)}
    random = np.random.default_rng(0)

    def turn(seconds: float) -> tuple[int, float]:
        steps, spent = 0, 0.0
        while spent < seconds:
            action = players.random(state["seen"], random)
            start = time.process_time()
            step = env.step(action)
            spent += time.process_time() - start
            state["seen"] = step.obs
            steps += count
        return steps, spent

    return turn


def interleave(turns: dict[Any, Turn], rounds: int, seconds: float) -> dict[Any, float]:
    """Median steps a second of each, one after another in every round."""
    for turn in turns.values():
        turn(seconds / 4)
    found: dict[Any, list[float]] = {key: [] for key in turns}
    for _ in range(rounds):
        for key, turn in turns.items():
            steps, spent = turn(seconds)
            found[key].append(steps / spent)
    return {key: statistics.median(values) for key, values in found.items()}


def show(speed: float, base: float | None = None) -> str:
    text = f"{speed:,.0f}"
    return text if base is None else f"{text} ({speed / base:.{0 if speed / base >= 10 else 1}f})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rounds, seconds = (3, 0.05) if given.quick else (9, 0.2)

    lines = ["| world | mpe2 | " + " | ".join(f"{n} env{'s' if n > 1 else ''}" for n in SIZES) + " |", "|---" * 6 + "|"]
    for name in particle.SCENARIOS:
        turns: dict[Any, Turn] = {"mpe2": theirs(name), **{n: ours(name, n) for n in SIZES}}
        speeds = interleave(turns, rounds, seconds)
        row = [name, show(speeds["mpe2"]), *(show(speeds[n], speeds["mpe2"]) for n in SIZES)]
        lines.append("| " + " | ".join(row) + " |")
        print(lines[-1], flush=True)

    beside = ["| | " + " | ".join(f"{n} env{'s' if n > 1 else ''}" for n in SIZES) + " |", "|---" * 5 + "|"]
    pairs: dict[Any, Turn] = {}
    for n in SIZES:
        turn = vmas_turn(n)
        if turn is not None:
            pairs[("VMAS", n)] = turn
        pairs[("relive", n)] = ours("simple_spread", n)
    speeds = interleave(pairs, rounds, seconds)
    if ("VMAS", 1) in speeds:
        beside.append("| VMAS | " + " | ".join(show(speeds["VMAS", n]) for n in SIZES) + " |")
        cells = (show(speeds["relive", n], speeds["VMAS", n]) for n in SIZES)
        beside.append("| relive (times VMAS) | " + " | ".join(cells) + " |")
    else:
        beside.append("| VMAS is not installed |" + " |" * len(SIZES))
    print("\n".join(beside), flush=True)

    battles = ["| | " + " | ".join(f"{n} env{'s' if n > 1 else ''}" for n in SIZES) + " |", "|---" * 5 + "|"]
    for name in ("marines_4v4", "marines_8v8"):
        speeds = interleave({n: marines(name, n) for n in SIZES}, rounds, seconds)
        battles.append(f"| {name} | " + " | ".join(show(speeds[n]) for n in SIZES) + " |")
        print(battles[-1], flush=True)

    if given.report is not None:
        from importlib.metadata import PackageNotFoundError, version

        def known(package: str) -> str:
            try:
                return version(package)
            except PackageNotFoundError:
                return "not installed"

        page = PAGE.format(
            day=date.today().isoformat(),
            machine=platform.machine(),
            python=platform.python_version(),
            numpy=np.__version__,
            mpe2=known("mpe2"),
            vmas=known("vmas"),
            rounds=rounds,
            particle="\n".join(lines),
            vmas_table="\n".join(beside),
            marines="\n".join(battles),
        )
        (given.report / "envs.md").write_text(page)


if __name__ == "__main__":
    main()
