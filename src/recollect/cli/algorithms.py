"""``recollect algorithms``: what can be trained."""

from __future__ import annotations

import inspect
import sys

from recollect.train import ALGORITHMS

__all__ = ["algorithms"]


def algorithms() -> None:
    """List the algorithms, with a line each."""
    for name, settings in ALGORITHMS.items():
        described = inspect.getdoc(sys.modules[settings.__module__]) or ""
        print(f"{name}  {described.partition(chr(10))[0]}")
