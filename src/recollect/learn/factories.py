"""Custom networks, encoders and losses: a function given in Python, or named as ``package.module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from recollect.errors import OptionError

__all__ = ["GIVEN", "name_of", "named_module", "resolve"]

GIVEN = "(given in Python)"
"""What files say of a function that has no importable name."""


def resolve(what: str, value: Any, known: Mapping[str, Any]) -> Any:
    """The value of a setting: a known name's, one imported by name, or the function given.

    Args:
        what: The setting's name.
        known: Built-in values by name.
    """
    if not isinstance(value, str):
        if not callable(value):
            raise OptionError(what, f"be {_names(known)}, package.module:function, or a function", repr(value))
        return value
    if value in known:
        return known[value]
    if value == GIVEN:
        remedy = f"Pass networks={{{what!r}: ...}}."
        raise OptionError(what, "be given again, since it has no name to import it by", repr(value), remedy)
    module, colon, name = value.partition(":")
    if not colon or not module or not name:
        raise OptionError(what, f"be {_names(known)}, or package.module:function", repr(value))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise OptionError(what, "name something that can be imported", repr(value), str(error)) from None
    if not callable(found):
        raise OptionError(what, "name a function or a class", repr(value))
    return found


def named_module(value: Any) -> str:
    """The module that resolving a setting imports; empty if none."""
    return value.partition(":")[0] if isinstance(value, str) and ":" in value else ""


def name_of(value: Callable[..., Any]) -> str:
    """The importable name of a function, for ``resolve``; empty if it has none."""
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    try:
        found = resolve("name", f"{module}:{name}", {}) if module != "__main__" else None
    except OptionError:
        return ""
    return f"{module}:{name}" if found is value else ""


def _names(known: Mapping[str, Any]) -> str:
    return ", ".join(known)
