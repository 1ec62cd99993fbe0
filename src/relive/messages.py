"""Parts of messages: a value in brief, and the name that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = ["brief", "did_you_mean"]


def brief(value: object, most: int = 60) -> str:
    """A value in at most so many characters.

    >>> brief("a" * 100, 20)
    "'aaaaaaaaaaaaaaaa..."
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes out no number of thousands of digits
        text = "a number of very many digits"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def did_you_mean(name: object, known: Iterable[Any], otherwise: str = "") -> str:
    """The remedy for a misspelt name, if one of those known is near; capitals do not count.

    >>> did_you_mean("MADPG", ["maddpg", "qmix"])
    "Did you mean 'maddpg'?"
    """
    lower = {str(each).lower(): str(each) for each in known}
    near = difflib.get_close_matches(str(name).lower(), lower, 1, 0.5)
    return f"Did you mean {lower[near[0]]!r}?" if near else otherwise
