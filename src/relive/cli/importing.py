"""Imports from the current folder, for names that were typed or trusted."""

from __future__ import annotations

import os
import sys

from relive.errors import OptionError
from relive.training.trust import import_modules

__all__ = ["import_from_here", "import_typed", "taken"]


def import_from_here() -> None:
    """Append the current folder to the import path."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def import_typed(arguments: list[str]) -> tuple[str, ...]:
    """Import the modules of all ``--import`` flags and remove the flags."""
    names = []
    while "--import" in arguments:
        names.append(taken(arguments, "--import"))
    if names:
        import_from_here()
        import_modules(names)
    return tuple(names)


def taken(arguments: list[str], flag: str) -> str:
    """Remove a flag and its value; returns the value."""
    place = arguments.index(flag)
    if place + 1 >= len(arguments):
        raise OptionError(flag, "be followed by a value", "nothing")
    value = arguments[place + 1]
    del arguments[place : place + 2]
    return value
