"""Progress of runs: speed, time to go, and a bar that costs a step little."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from relive.cli import progress
from relive.cli.progress import Clock, time_text, with_progress
from relive.training import Result


def test_a_bar_is_not_drawn_at_every_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Eight thousand steps in eight seconds; the last one is always shown."""
    now, drawn = [0.0], []
    monkeypatch.setattr("relive.cli.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "Console", lambda: Console(file=io.StringIO(), force_terminal=True, width=200))
    monkeypatch.setattr(progress.Bars, "update", lambda _, __, **shown: drawn.append(shown))

    def go(tick: Any) -> Result:
        for steps in range(1, 8001):
            now[0] += 0.001
            tick(steps, 8000, {"return": -1.5})
        return Result(tmp_path, 8000, 0, {}, None, None)  # type: ignore[arg-type]

    with_progress(go)
    assert 75 <= len(drawn) <= 82
    assert drawn[-1]["completed"] == drawn[-1]["total"] == 8000
    assert drawn[-1]["metrics"] == "return -1.50"
    assert drawn[-1]["speed"].endswith(" steps/s")


def test_time_to_go_leaves_warm_up_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps a second at first, a hundred later."""
    now = [0.0]
    monkeypatch.setattr("relive.cli.progress.time.monotonic", lambda: now[0])
    clock = Clock()
    for steps in range(0, 10_001, 100):
        speed, elapsed, left = clock.tick(steps, 10_000)
        now[0] += 0.1 if steps < 2000 else 1.0
    assert (speed, left) == (pytest.approx(100, rel=0.01), 0)
    now[0] = 0.0
    clock = Clock()
    for steps in range(0, 5001, 100):
        speed, elapsed, left = clock.tick(steps, 10_000)
        now[0] += 0.1 if steps < 2000 else 1.0
    assert left == pytest.approx(50, rel=0.01)
    assert elapsed == pytest.approx(2 + 30, abs=0.2)
    assert (time_text(59.6), time_text(3600), time_text(None)) == ("1:00", "1:00:00", "?")
