"""The newest episodes, of different lengths, in the rows of one memory."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from relive.compat.drawing import seed_of
from relive.errors import SnapshotError
from relive.memory import Batch, Memory, Window
from relive.schema import Schema
from relive.types import Array

__all__ = ["EpisodeRing"]


@final
class EpisodeRing:
    """Up to ``count`` episodes, each known by the place it was put to: 0, 1, ... and round again.

    Rows are kept for steps that happened and no others. Room for the longest is reserved, which costs nothing before it
    is used, and the rows of an episode that another one replaces give their memory back.

    Args:
        longest: Steps of the longest episode.
    """

    def __init__(self, schema: Schema, count: int, longest: int, window: Window, seed: int | None) -> None:
        self.count = count
        self._closing = 0 if schema.loose else 1
        # One more than are kept: a new one is whole before an old one goes.
        rows = (count + 1) * (longest + self._closing)
        self.memory = Memory(schema, rows, window=window, max_episodes=count, seed=seed_of(seed))
        self.put = 0
        """Episodes that were put in since the ring was new or cleared."""
        self._head = 0
        self.starts = np.zeros(count, np.int64)
        self.lengths = np.zeros(count, np.int64)

    @property
    def size(self) -> int:
        """Episodes that are there."""
        return min(self.put, self.count)

    @property
    def next(self) -> int:
        """The place of the next episode."""
        return self.put % self.count

    def append(self, steps: dict[str, Any], length: int, *, terminated: bool) -> None:
        """Put an episode in.

        Args:
            steps: Fields ``[length, ...]``, and ``final_...`` of observed ones.
        """
        ends = np.arange(length) == length - 1
        self.memory.extend(**steps, terminated=ends & terminated, truncated=ends & (not terminated))
        place = self.next
        self.starts[place], self.lengths[place] = self._head, length
        self._head += length + self._closing
        self.put += 1

    def read(self, places: Array, offsets: Any = 0) -> Batch:
        """Episodes through the memory's window, from their first step or a later one on."""
        return self.memory.read(np.zeros(len(places), np.int64), self.starts[places] + offsets)

    def rows(self, key: str, place: int) -> Array:
        """One field of one episode, closing row included; a copy."""
        serials = np.arange(self.starts[place], self.starts[place] + self.lengths[place] + self._closing)
        return np.asarray(self.memory[key][serials % self.memory.capacity])

    def clear(self) -> None:
        """Forget everything."""
        self.memory.clear()
        self.put = 0

    def notes(self) -> dict[str, Any]:
        """What a snapshot of the memory does not say."""
        lists = {"starts": self.starts.tolist(), "lengths": self.lengths.tolist()}
        return {"put": self.put, "head": self._head, **lists}

    def adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        """Take over a memory and its notes."""
        there = memory.episodes
        if len(there.start) != min(notes["put"], self.count) or len(notes["starts"]) != self.count:
            raise SnapshotError("buffer.json", f"know the {len(there.start)} episodes that were saved", notes["put"])
        head = int(memory.inspect.heads[0])
        if notes["head"] != head:
            raise SnapshotError("buffer.json", f"have the memory's head, {head}", notes["head"])
        starts, lengths = np.array(notes["starts"], np.int64), np.array(notes["lengths"], np.int64)
        known = sorted(zip(starts.tolist()[: len(there.start)], lengths.tolist()[: len(there.start)], strict=True))
        if known != sorted(zip(there.start.tolist(), there.length.tolist(), strict=True)):
            raise SnapshotError("buffer.json", "know the episodes that were saved", "others")
        self.memory, self.put, self._head = memory, int(notes["put"]), head
        self.starts, self.lengths = starts, lengths
