"""How a stack that trains in a process of its own takes turns with others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = int(os.environ.get("BENCH_SEED", "0"))


class Course:
    """Judges a training every so many steps, and ends it when it is good enough or takes too long.

    Each time it prints CPU seconds of training alone, steps, and the return.

    Args:
        judge: Gives the return of an agent without exploration; its CPU time does not count.
        score: The return that ends it.
        most: CPU seconds that end it.
    """

    def __init__(self, judge: Callable[[], float], *, score: float, most: float, every: int) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._judge, self._score, self._most, self._every = judge, score, most, every
        self._steps, self._next, self._left_out = 0, every, cpu_seconds()

    def tick(self, steps: int) -> None:
        """So many steps were taken since the last call."""
        self._steps += steps
        if self._steps >= self._next:
            self._next += self._every
            spent = cpu_seconds() - self._left_out
            found = self._judge()
            print(spent, self._steps, found, file=self._out)
            if found >= self._score or spent >= self._most:
                os._exit(0)
            self._left_out = cpu_seconds() - spent


def course_or_clock(judge: Callable[[], float], warm: int, **options: Any) -> Course | Clock:
    """What a command line asks for: ``--course SCORE SECONDS EVERY`` a course, otherwise a clock."""
    if "--course" not in sys.argv:
        return Clock(warm, **options)
    score, most, every = map(float, sys.argv[sys.argv.index("--course") + 1 :][:3])
    return Course(judge, score=score, most=most, every=int(every))


class Clock:
    """Counts environment steps, and waits when its turn is over.

    Args:
        warm: Steps before it counts.
        look_every: Calls of ``tick`` between looks at the time.

    Lines on standard input are CPU seconds to play for; each is answered by steps and the CPU seconds they took.
    """

    def __init__(self, warm: int, look_every: int = 1) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # whatever a library prints goes elsewhere
        self._warm, self._steps, self._wanted = warm, 0, 0.0
        self._ticks, self._every = 0, look_every
        self._start: float | None = None

    def tick(self, steps: int) -> None:
        """So many steps were taken since the last call."""
        self._steps += steps
        if self._start is None:
            if self._steps >= self._warm:
                print("ready", file=self._out)
                self._wait()
            return
        self._ticks += 1
        if self._ticks % self._every:  # looking costs more than a step may
            return
        spent = cpu_seconds() - self._start
        if spent >= self._wanted:
            print(self._steps, spent, file=self._out)
            self._wait()

    def _wait(self) -> None:
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        self._wanted, self._steps, self._start = float(line), 0, cpu_seconds()


def cpu_seconds() -> float:
    """CPU seconds of this process, and of those it has started."""
    total = time.process_time()
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, after = process.read_text().rpartition(") ")
        except OSError:
            continue  # it has ended meanwhile
        fields = after.split()
        if int(fields[1]) == os.getpid():
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def arguments() -> dict[str, Any]:
    """Rows of a batch, steps for each update, environments, and steps before it counts."""
    batch, every, envs, warm = map(int, sys.argv[1:5])
    return {"batch": batch, "every": every, "envs": envs, "warm": warm}
