"""Ranges of settings that are worth searching, declared beside the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, final

__all__ = ["Choice", "Range", "SearchSpace"]


@final
@dataclass(frozen=True)
class Range:
    """Numbers from low to high; whole ones if both are. On a logarithmic scale if ``log``."""

    low: float
    high: float
    log: bool = False


@final
@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]


SearchSpace: TypeAlias = dict[str, Range | Choice]
"""What is searched, by the names of settings."""
