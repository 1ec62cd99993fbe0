"""``recollect algorithms``: what can be trained."""

from __future__ import annotations

from recollect.train import ALGORITHMS

__all__ = ["algorithms"]


def algorithms() -> None:
    """List the algorithms, with a line each."""
    widest = max(map(len, ALGORITHMS))
    for name, algorithm in ALGORITHMS.items():
        print(f"{name:<{widest}}  {algorithm.summary}")
