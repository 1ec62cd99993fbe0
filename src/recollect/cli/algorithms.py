"""``recollect algorithms``: what can be trained."""

from __future__ import annotations

import importlib
import inspect

from recollect.train import ALGORITHMS

__all__ = ["algorithms"]


def algorithms() -> None:
    """List the algorithms, with a line each."""
    for name in ALGORITHMS:
        described = inspect.getdoc(importlib.import_module(f"recollect.agents.{name}")) or ""
        print(f"{name}  {described.partition(chr(10))[0]}")
