"""Schedules of learning rates and exploration."""

from __future__ import annotations

__all__ = ["linear"]


def linear(start: float, end: float, over: float, step: float) -> float:
    """Linear interpolation from ``start`` to ``end`` over ``over`` steps, then ``end``.

    >>> linear(1.0, 0.0, 100, 25)
    0.75
    """
    return end if step >= over else start + (end - start) * step / over
