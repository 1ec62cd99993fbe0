"""What others may see of a run while it goes."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from recollect.live import MemoryView, Publisher, View
from recollect.memory import Memory, Rollout
from recollect.train.films import Films

__all__ = ["RunView", "published"]


@final
class RunView:
    """A run's memory, and films of its episodes."""

    def __init__(self, memory: Memory | Rollout, films: Films) -> None:
        self._films = films
        rows = memory.memory if isinstance(memory, Rollout) else memory
        self._memory = MemoryView(memory, film=lambda *episode: films.draw(rows, *episode), filmed=films.there)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """As of a memory's view."""
        self._films.look()
        return self._memory.answer(asked)


@contextmanager
def published(folder: Path, view: View) -> Iterator[None]:
    """Answer questions about a view meanwhile, where the system has sockets for that."""
    publisher = None
    if hasattr(socket, "AF_UNIX"):
        try:
            publisher = Publisher(folder, view)
        except OSError as error:  # a run does not end for it
            warnings.warn(f"the run cannot be looked at while it goes: {error}", stacklevel=2)
    try:
        yield
    finally:
        if publisher is not None:
            publisher.close()
