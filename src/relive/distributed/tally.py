"""Counts of inserted and sampled steps, piggybacked on calls between shards, writers and learners.

Every count is increased by one source only: a shard since it was started, or a learner. So two tallies are merged by
the maximum of every source's count (a grow-only counter CRDT), in any order and idempotently, without a coordinator.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, final

from relive.errors import OptionError
from relive.memory.checks import is_number, whole

__all__ = ["Ratio", "Tally"]


@final
@dataclass
class Tally:
    """Steps inserted and samples drawn by source, steps held by shard, and the newest version of the policy."""

    inserted: dict[str, int] = field(default_factory=dict)
    sampled: dict[str, int] = field(default_factory=dict)
    held: dict[str, list[int]] = field(default_factory=dict)
    """Steps in a shard, after a number that rises whenever they change."""
    newest: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def plain(self) -> dict[str, Any]:
        """As data for a call."""
        with self._lock:
            parts = {"inserted": dict(self.inserted), "sampled": dict(self.sampled), "held": dict(self.held)}
            return {**parts, "newest": self.newest}

    def join(self, other: dict[str, Any]) -> None:
        """Merge another tally."""
        with self._lock:
            for mine, theirs in ((self.inserted, other["inserted"]), (self.sampled, other["sampled"])):
                for source, count in theirs.items():
                    mine[source] = max(mine.get(source, 0), count)
            for shard, found in other["held"].items():
                if found[0] >= self.held.get(shard, [-1, 0])[0]:
                    self.held[shard] = found
            self.newest = max(self.newest, other["newest"])

    def count(self, name: str, source: str, more: int) -> None:
        """Increase the count of one's own source."""
        with self._lock:
            counts = self.inserted if name == "inserted" else self.sampled
            counts[source] = counts.get(source, 0) + more

    def hold(self, shard: str, stamp: int, steps: int) -> None:
        """Say how many steps a shard holds."""
        with self._lock:
            self.held[shard] = [stamp, steps]

    @property
    def totals(self) -> tuple[int, int, int]:
        """Steps inserted, samples drawn and steps held, of all."""
        with self._lock:
            return (
                sum(self.inserted.values()),
                sum(self.sampled.values()),
                sum(steps for _, steps in self.held.values()),
            )


@final
@dataclass(frozen=True)
class Ratio:
    """A rate limiter: samples per inserted step, over all writers and learners.

    Writers wait while too few samples were drawn for the steps inserted; learners wait while too many were, or fewer
    than ``min_size`` steps are held. Never both.

    Args:
        samples: Samples for each step inserted beyond the first ``min_size``.
        tolerance: Samples that either side may be ahead; None: a tenth of those for ``min_size`` steps, at least 1,000
            steps' worth. Calls in flight come on top.
    """

    samples: float
    min_size: int = 1
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if not is_number(self.samples) or not 0 < self.samples < 1e9:
            raise OptionError("samples", "be above 0", self.samples)
        whole("min_size", self.min_size, 1, 2**62)
        if self.tolerance is not None and (not is_number(self.tolerance) or not self.tolerance >= 0):
            raise OptionError("tolerance", "be at least 0", self.tolerance)

    @property
    def slack(self) -> float:
        """Samples that either side may be ahead."""
        return self.samples * max(0.1 * self.min_size, 1000) if self.tolerance is None else float(self.tolerance)

    def excess(self, tally: Tally, *, drawing: int = 0) -> float:
        """Samples that are still to be drawn for what was inserted; below zero if too many were.

        Args:
            drawing: Samples that are being drawn.
        """
        inserted, sampled, _ = tally.totals
        return (inserted - self.min_size) * self.samples - sampled - drawing

    def may_insert(self, tally: Tally) -> bool:
        """Whether writers may go on."""
        return tally.totals[2] < self.min_size or self.excess(tally) <= self.slack

    def may_sample(self, tally: Tally, *, drawing: int = 0) -> bool:
        """Whether learners may go on."""
        return tally.totals[2] >= self.min_size and self.excess(tally, drawing=drawing) >= -self.slack
