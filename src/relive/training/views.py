"""The live view of a run."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from relive.live import MemoryView, Publisher, View
from relive.memory import Memory, Rollout
from relive.training.films import Films

__all__ = ["RunView", "published"]


@final
class RunView:
    """A run's memory, and films of its episodes."""

    def __init__(self, memory: Memory | Rollout, films: Films) -> None:
        self._films = films
        rows = memory.memory if isinstance(memory, Rollout) else memory
        self._memory = MemoryView(memory, film=lambda *episode: films.draw(rows, *episode), filmed=films.there)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """As ``MemoryView.answer``."""
        self._films.look()
        return self._memory.answer(asked)

    def close(self) -> None:
        """Stop looking."""
        self._memory.close()


@contextmanager
def published(folder: Path, view: View) -> Iterator[None]:
    """A context that answers queries about a view over a local socket, where the system has these."""
    publisher = None
    if hasattr(socket, "AF_UNIX"):
        try:
            publisher = Publisher(folder, view)
        except OSError as error:  # no reason to stop the run
            warnings.warn(f"the run cannot be looked at while it goes: {error}", stacklevel=2)
    try:
        yield
    finally:
        if publisher is not None:
            publisher.close()
