"""Progress of a run: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from relive.training import Result
from relive.training.loop import Progress
from relive.training.metrics import evaluations

__all__ = ["Clock", "metrics_text", "time_text", "with_progress"]

_REDRAWN = 0.1  # seconds: a step of a small environment is faster than a look at the bar


def with_progress(go: Callable[[Progress], Result]) -> Result:
    """Run with progress: a bar on a terminal, lines elsewhere."""
    console = Console()
    if not console.is_terminal:
        return go(_Lines())
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("{task.fields[times]}"),
        TextColumn("{task.fields[metrics]}"),
    )
    with Bars(*columns, console=console, refresh_per_second=4) as bars:
        task = bars.add_task("", total=None, speed="", times="", metrics="")
        clock, drawn = Clock(), -math.inf

        def progress(steps: int, total: int, metrics: Mapping[str, float]) -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn < _REDRAWN and steps < total:
                return
            drawn = now
            speed, elapsed, left = clock.tick(steps, total)
            times = f"{time_text(elapsed)} elapsed, {time_text(left)} left"
            shown: dict[str, Any] = {"speed": f"{speed:,.0f} steps/s", "times": times}
            bars.update(task, total=total, completed=steps, metrics=metrics_text(metrics), **shown)

        return go(progress)


@final
class Clock:
    """Speed and remaining time, by the last tenth of the run, so that its start does not count later."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._marks: collections.deque[tuple[float, int]] = collections.deque()

    def tick(self, steps: int, total: int) -> tuple[float, float, float | None]:
        """Steps per second, seconds elapsed, and seconds left if known."""
        now = time.monotonic()
        marks = self._marks
        if not marks or now - marks[-1][0] > 0.2 or steps >= total:
            marks.append((now, steps))
        while len(marks) > 2 and marks[0][1] < steps - total / 10 and now - marks[0][0] > 2:
            marks.popleft()
        speed = (steps - marks[0][1]) / max(now - marks[0][0], 1e-9) if len(marks) > 1 else 0.0
        left = (total - steps) / speed if speed else None
        return speed, now - self._begun, left


def time_text(seconds: float | None) -> str:
    """Minutes and seconds, with hours where there are any.

    >>> time_text(65), time_text(3725), time_text(None)
    ('1:05', '1:02:05', '?')
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@final
class _Lines:
    """Progress as lines, one for each evaluation."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._last: Mapping[str, float] | None = None

    def __call__(self, steps: int, total: int, metrics: Mapping[str, float]) -> None:
        speed, elapsed, left = self._clock.tick(steps, total)
        if self._last is None:  # a resumed run's metrics are old
            self._last = metrics if steps else {}
        if metrics is not self._last and metrics:
            times = f"{time_text(elapsed)} elapsed, {time_text(left)} left"
            speeds = f"{speed:,.0f} steps/s  {times}" if steps else "before learning"
            print(f"{steps:>10,} of {total:,} steps  {speeds}  {metrics_text(metrics)}", flush=True)
        self._last = metrics


def metrics_text(metrics: Mapping[str, float]) -> str:
    """Returns, and other metrics that the environment reports."""
    _, returns, reports = evaluations([{**metrics, "step": 0}])
    return "  ".join(f"{name} {metrics[name]:.2f}" for name in (*returns, *reports))
