"""Checks of environment options."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive.errors import OptionError

__all__ = ["positive", "proportion"]


def positive(name: str, value: object, *, least: int = 1, none: bool = False) -> Any:
    """An integer of at least ``least`` (or None, if ``none``)."""
    if none and value is None:
        return None
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise OptionError(name, f"be a whole number of at least {least}{' or None' if none else ''}", repr(value))
    return int(value)


def proportion(name: str, value: object) -> None:
    """Refuse a value outside [0, 1]."""
    if not isinstance(value, (int, float, np.floating)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise OptionError(name, "be from 0 to 1", repr(value))
