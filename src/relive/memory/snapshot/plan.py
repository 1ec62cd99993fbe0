"""Which rows a save has to write, and which segments of the last save it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from relive.memory.snapshot.manifest import Manifest, Run, Segment
from relive.types import Array

__all__ = ["first_missing", "kept_segments", "missing_runs", "segments_of", "trimmed"]


# A cut changes at most this many of a lane's newest rows (core/memory/timeline.hpp).
NOT_SETTLED = 2


def kept_segments(manifest: Manifest, heads: Array, tails: Array, size: int) -> list[Segment]:
    """Segments of the last snapshot worth keeping, each with the rows in it that are still the memory's.

    Small segments are written again together with what is new, and so is what little is left of old ones.

    Args:
        heads: The memory's heads when that snapshot was made; rows since then may have replaced the newest ones.
        tails: The memory's oldest rows now.
        size: Rows of a full segment.
    """
    kept = []
    for segment in manifest.segments:
        runs = trimmed(segment.runs, tails, heads - NOT_SETTLED)
        live = sum(run.count for run in runs)
        if segment.rows * 2 > size and live * 4 > segment.rows:
            kept.append(Segment(segment.note, segment.rows, runs))
    return kept


def trimmed(runs: Sequence[Run], tails: Array, heads: Array) -> tuple[Run, ...]:
    """The parts of runs that lie in [tail, head) of their lanes."""
    parts = []
    for run in runs:
        first = max(run.first, int(tails[run.lane]))
        last = min(run.first + run.count, int(heads[run.lane]))
        if first < last:
            parts.append(Run(run.lane, first, last - first, run.at + first - run.first))
    return tuple(parts)


def missing_runs(kept: Sequence[Segment], tails: Array, heads: Array) -> list[list[tuple[int, int]]]:
    """By lane, the serials in [tail, head) that no kept segment has, as [first, last) in order."""
    covered: list[list[tuple[int, int]]] = [[] for _ in tails]
    for segment in kept:
        for run in segment.runs:
            covered[run.lane].append((run.first, run.first + run.count))
    missing: list[list[tuple[int, int]]] = []
    for lane, found in enumerate(covered):
        at, gaps = int(tails[lane]), []
        for first, last in [*sorted(found), (int(heads[lane]), int(heads[lane]))]:
            if first > at:
                gaps.append((at, first))
            at = max(at, last)
        missing.append(gaps)
    return missing


def first_missing(missing: list[list[tuple[int, int]]], heads: Array) -> Array:
    """By lane, the oldest serial that has to be written; the head if none has."""
    return np.array([gaps[0][0] if gaps else head for gaps, head in zip(missing, heads, strict=True)], np.int64)


def segments_of(missing: list[list[tuple[int, int]]], size: int) -> Iterator[list[Run]]:
    """Runs to write, a list a segment of at most ``size`` rows, the oldest rows of all lanes first."""
    active = sum(bool(gaps) for gaps in missing)
    slice_rows = max(1, size // max(1, active))
    cursors = [list(reversed(gaps)) for gaps in missing]
    runs: list[Run] = []
    rows = 0
    while any(cursors):
        for lane, gaps in enumerate(cursors):
            quota = slice_rows
            while gaps and quota:
                first, last = gaps.pop()
                count = min(last - first, quota, size - rows)
                if first + count < last:
                    gaps.append((first + count, last))
                if runs and runs[-1].lane == lane and runs[-1].first + runs[-1].count == first:
                    before = runs.pop()
                    runs.append(Run(lane, before.first, before.count + count, before.at))
                else:
                    runs.append(Run(lane, first, count, rows))
                rows += count
                quota -= count
                if rows == size:
                    yield runs
                    runs, rows = [], 0
    if runs:
        yield runs
