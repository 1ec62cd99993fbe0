"""The steps of a rollout as flat arrays, lane by lane."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from relive.memory.batch import Batch, nested
from relive.types import Array

__all__ = ["Table"]


@final
class Table:
    """Steps ``[n]``, lane by lane."""

    def __init__(self, episodes: Any, lanes: int, began: Array, action_keys: frozenset[str]) -> None:
        self._action_keys = action_keys
        order = np.argsort(episodes.lane, kind="stable")
        length = episodes.length[order]
        ends = np.cumsum(length)
        count, first = int(ends[-1]), ends - length
        within = np.arange(count) - np.repeat(first, length)
        self.lane = np.repeat(episodes.lane[order], length)
        self.serial = np.repeat(episodes.start[order], length) + within
        self.terminated, self.truncated = np.zeros(count, bool), np.zeros(count, bool)
        self.terminated[ends - 1], self.truncated[ends - 1] = episodes.terminated[order], episodes.truncated[order]
        self.counts = np.bincount(self.lane, minlength=lanes)
        self._first = np.cumsum(self.counts) - self.counts
        self.time = np.arange(count) - self._first[self.lane]
        self.starts = within == 0
        self.starts[self.time == 0] = began[self.lane[self.time == 0]]
        self.cut = np.flatnonzero(self.truncated & ~self.terminated)
        self.newest = np.flatnonzero(np.diff(self.lane, append=-1))
        """The index of each non-empty lane's last step."""
        self.fields: dict[str, Array] = {}
        self.bootstrap: dict[str, Array] = {}
        """The observations to bootstrap from."""

    def next_values(self, values: Array, bootstrap: Array) -> Array:
        """Values ``[n, ...]`` of each step's next observation; ``bootstrap [M, ...]`` are those of bootstrap ones."""
        after = np.zeros_like(values)
        after[:-1] = values[1:]
        after[self.newest] = bootstrap[self.lane[self.newest]]
        after[self.cut] = bootstrap[len(self.counts) :]
        return after

    def dense(self, values: Array) -> Array:
        """Values ``[n, ...]`` as ``[T, lanes, ...]``, zero where a lane has no more steps."""
        made = np.zeros((int(self.counts.max()), len(self.counts), *values.shape[1:]), values.dtype)
        made[self.time, self.lane] = values
        return made

    def flat(self, values: Array) -> Array:
        """Values ``[T, lanes, ...]`` as ``[n, ...]``."""
        return np.asarray(values[self.time, self.lane])

    def rows(self, some: Array) -> Batch:
        """Steps by index."""
        found = {key: values[some] for key, values in self.fields.items()}
        flags = {"terminated": self.terminated[some], "truncated": self.truncated[some]}
        rows = {**found, **flags, "lanes": self.lane[some], "serials": self.serial[some]}
        return nested(rows, self._action_keys)

    def chunks(self, length: int) -> Array:
        """Indices of the first steps of consecutive sequences."""
        return np.flatnonzero(self.time % length == 0)

    def sequences(self, some: Array, length: int, start_fields: tuple[str, ...]) -> Batch:
        """Sequences by the indices of their first steps."""
        there = np.minimum(self.counts[self.lane[some]] - self.time[some], length)
        mask = np.arange(length) < there[:, None]
        places = np.where(mask, some[:, None] + np.arange(length), 0)
        shown = {**self.fields, "terminated": self.terminated, "truncated": self.truncated, "starts": self.starts}
        found = {}
        for key, values in shown.items():
            if key in start_fields:
                found[key] = values[some]
                continue
            found[key] = values[places]
            found[key][~mask] = 0
        rows = {**found, "mask": mask, "lengths": there, "lanes": self.lane[some], "serials": self.serial[some]}
        return nested(rows, self._action_keys)
