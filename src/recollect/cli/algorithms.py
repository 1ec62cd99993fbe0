"""``recollect algorithms``: what can be trained."""

from __future__ import annotations

from recollect.agents import registry

__all__ = ["algorithms"]


def algorithms() -> None:
    """List the algorithms, with a line each."""
    known = registry.algorithms()
    widest = max(map(len, known))
    for name, algorithm in known.items():
        print(f"{name:<{widest}}  {registry.summary(algorithm)}")
