"""``relive algorithms``: the list of algorithms."""

from __future__ import annotations

from relive.agents import registry

__all__ = ["algorithms"]


def algorithms() -> None:
    """List the algorithms with a summary each."""
    known = registry.algorithms()
    widest = max(map(len, known))
    for name, algorithm in known.items():
        print(f"{name:<{widest}}  {registry.summary(algorithm)}")
