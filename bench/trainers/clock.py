"""How a stack that trains in a process of its own takes turns with others."""

from __future__ import annotations

import os
import sys
import time
from typing import Any


class Clock:
    """Counts environment steps, and waits when its turn is over.

    Lines on standard input are CPU seconds to play for; each is answered by steps and the CPU seconds they took.
    """

    def __init__(self, warm: int) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # whatever a library prints goes elsewhere
        self._warm, self._steps, self._wanted = warm, 0, 0.0
        self._start: float | None = None

    def tick(self, steps: int) -> None:
        """So many steps were taken since the last call."""
        self._steps += steps
        if self._start is None:
            if self._steps >= self._warm:
                print("ready", file=self._out)
                self._wait()
            return
        spent = time.process_time() - self._start
        if spent >= self._wanted:
            print(self._steps, spent, file=self._out)
            self._wait()

    def _wait(self) -> None:
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        self._wanted, self._steps, self._start = float(line), 0, time.process_time()


def arguments() -> dict[str, Any]:
    """Rows of a batch, steps for each update, environments, and steps before it counts."""
    batch, every, envs, warm = map(int, sys.argv[1:5])
    return {"batch": batch, "every": every, "envs": envs, "warm": warm}
