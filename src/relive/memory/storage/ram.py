"""Rows in this process's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from relive.errors import OptionError
from relive.memory.storage.ground import Layout

__all__ = ["Ram"]


@final
class _RamGround:
    others = False
    guarded = False

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.store = layout.open_store()

    def write_to(self, lanes: Any) -> None:
        """All lanes are this process's."""

    def check_attached(self) -> None:
        """A child's rows are its own."""

    def leave_lanes(self) -> None:
        """There are no others."""

    def flush(self) -> None:
        """There is no disk."""

    def close(self) -> bool:
        """Rows go when nobody refers to them."""
        return False


@final
@dataclass(frozen=True, slots=True)
class Ram:
    """Rows in this process's memory, on huge pages where the system offers them."""

    def open(self, layout: Layout | None) -> _RamGround:
        """New rows."""
        return _RamGround(layout or self.layout())

    def layout(self) -> Layout:
        """There are no rows yet."""
        raise OptionError("storage", "hold rows already", "Ram()", "Make a new memory with Memory(schema, ...).")
