"""Callbacks of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final

from relive.agents.interface import Learner
from relive.training.sharded import RunMemory

__all__ = ["Callback", "RunState"]


@final
@dataclass
class RunState:
    """The state of a run, for callbacks. ``stop()`` ends it with a checkpoint, as Ctrl-C does."""

    folder: Path
    learner: Learner
    memory: RunMemory
    steps: int = 0
    updates: int = 0
    episodes: int = 0
    stopping: bool = False

    def stop(self) -> None:
        """End the run after this step."""
        self.stopping = True


class Callback(Protocol):
    """The callback interface. A class may have any of these methods."""

    def on_step(self, run: RunState) -> None:
        """After every step of all environments."""

    def on_update(self, run: RunState, metrics: Mapping[str, float]) -> None:
        """After every update."""

    def on_evaluate(self, run: RunState, metrics: Mapping[str, float]) -> None:
        """After every evaluation, with all that is logged of it."""

    def on_save(self, run: RunState) -> None:
        """After every checkpoint."""


def call(callbacks: tuple[Any, ...], what: str, *given: Any) -> None:
    """Call a method of every callback that has it."""
    for callback in callbacks:
        function = getattr(callback, what, None)
        if function is not None:
            function(*given)
