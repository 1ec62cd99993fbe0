"""Interleaved timing of callables on a noisy machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

WARM_UP = 3


@dataclass(frozen=True)
class Timing:
    """Microseconds a call: median over the rounds and best round, of wall and of process CPU time."""

    wall_median: float
    wall_best: float
    cpu_median: float
    cpu_best: float


def interleave(callables: dict[str, Callable[[], Any]], rounds: int = 15, min_time: float = 0.02) -> dict[str, Timing]:
    """Times all callables in turn, each for about `min_time` seconds a round.

    Every name runs once in each round, so that a slow spell of the machine hits all of them.
    CPU time is the whole process's and exceeds wall time where a callable uses several threads.
    """
    gc.collect()
    gc.freeze()
    try:
        repeats = {name: _calibrate(call, min_time) for name, call in callables.items()}
        walls: dict[str, list[float]] = {name: [] for name in callables}
        cpus: dict[str, list[float]] = {name: [] for name in callables}
        for _ in range(rounds):
            for name, call in callables.items():
                wall, cpu = _run(call, repeats[name])
                walls[name].append(wall * 1e6 / repeats[name])
                cpus[name].append(cpu * 1e6 / repeats[name])
    finally:
        gc.unfreeze()
    return {
        name: Timing(median(walls[name]), min(walls[name]), median(cpus[name]), min(cpus[name])) for name in callables
    }


def _calibrate(call: Callable[[], Any], min_time: float) -> int:
    _run(call, WARM_UP)
    repeats = 1
    while True:
        wall, _ = _run(call, repeats)
        if wall >= min_time / 4:
            return max(1, round(repeats * min_time / wall))
        repeats *= 4


def _run(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    cpu = time.process_time()
    wall = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - wall, time.process_time() - cpu
