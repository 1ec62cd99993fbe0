"""Schedules."""

from __future__ import annotations

from relive.learn import linear


def test_schedule() -> None:
    assert [linear(1.0, 0.2, 100, step) for step in (0, 50, 100, 900)] == [1.0, 0.6, 0.2, 0.2]
