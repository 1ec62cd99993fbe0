"""Modules of the current folder, for names that were typed or trusted."""

from __future__ import annotations

import os
import sys

__all__ = ["import_from_here"]


def import_from_here() -> None:
    """Let modules of the current folder be imported, after all others."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
