"""Ctrl-C and SIGTERM, which end a run with a checkpoint."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

__all__ = ["interruptible"]


@contextlib.contextmanager
def interruptible() -> Iterator[list[int]]:
    """A list of received signals (Ctrl-C, or a scheduler's SIGTERM); the second one exits at once."""
    pressed: list[int] = []

    def press(number: int, _: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, press)
    except ValueError:  # only the main thread hears signals
        yield pressed
        return
    try:
        yield pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
