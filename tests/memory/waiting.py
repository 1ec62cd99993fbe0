"""Waiting for what happens: a busy machine may need minutes for what a quiet one does at once."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 600
"""Seconds after which what never comes fails a test. Nothing that comes takes as long."""


def until(condition: Callable[[], object], pause: float = 0.02) -> None:
    """Wait until a condition holds."""
    late = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < late, "it never came"
        time.sleep(pause)
