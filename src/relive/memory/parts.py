"""Type checks of a memory's schema, sampler, window and storage."""

from __future__ import annotations

from typing import Any

from relive.errors import OptionError
from relive.memory.samplers import Sampler
from relive.memory.storage.ground import Storage
from relive.memory.windows import Window
from relive.messages import brief
from relive.schema import Schema

__all__ = ["check_parts"]

_KINDS: dict[str, tuple[Any, str]] = {
    "schema": (Schema, "Schema(obs=Field((3,)))"),
    "sampler": (Sampler, "Prioritized(alpha=0.6)"),
    "window": (Window, "NStep(3, gamma=0.99)"),
    "storage": (Storage, "Mapped('rows.bin')"),
}


def check_parts(**parts: Any) -> None:
    """Refuse arguments of the wrong type; None is the default of all but the schema."""
    for name, part in parts.items():
        kind, example = _KINDS[name]
        if isinstance(part, type):
            raise OptionError(name, f"be a {kind.__name__}", brief(part), "Call the class to make one.")
        if not isinstance(part, kind) and (part is not None or name == "schema"):
            raise OptionError(name, f"be a {kind.__name__}", brief(part), f"Pass one, such as {example}.")
