"""Checks that a memory's schema, sampler, window and storage fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, final

from relive.errors import OptionError
from relive.memory.batch import flat, nested
from relive.memory.samplers import Sampler
from relive.memory.storage.ground import Storage
from relive.memory.windows import OutputSpec, Window, rows_read
from relive.messages import brief
from relive.schema import Schema

__all__ = ["Hint", "check_parts", "outputs_of"]

_KINDS: dict[str, tuple[Any, str]] = {
    "schema": (Schema, "Schema(obs=Field((3,)))"),
    "sampler": (Sampler, "Prioritized(alpha=0.6)"),
    "window": (Window, "NStep(3, gamma=0.99)"),
    "storage": (Storage, "Mapped('rows.bin')"),
}


@final
class Hint:
    """A name that a class does not have, whose AttributeError says what to use."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(self._text, name="", obj=None)  # without a name, Python adds no guess of its own


def check_parts(*, required: str = "schema", **parts: Any) -> None:
    """Refuse arguments of the wrong type; None is the default of all but the one that is required."""
    for name, part in parts.items():
        kind, example = _KINDS[name]
        if isinstance(part, type):
            raise OptionError(name, f"be a {kind.__name__}", brief(part), "Call the class to make one.")
        if not isinstance(part, kind) and (part is not None or name == required):
            raise OptionError(name, f"be a {kind.__name__}", brief(part), f"Pass one, such as {example}.")


def outputs_of(window: Window, schema: Schema, stack: Mapping[str, int], *, span: int, lanes: int) -> list[OutputSpec]:
    """The arrays of a batch as the core takes them. Lanes that are too short for the window are refused."""
    least = rows_read(window.spec(), max(stack.values(), default=1))
    if span < least:
        raise OptionError(
            "capacity",
            f"give every lane the {least} rows that the window reads",
            f"{span * lanes} rows for {lanes} lanes",
            f"Use at least {least * lanes}.",
        )
    return [output for _, output in flat(nested({output[0]: output for output in window.outputs(schema, stack)}))]
