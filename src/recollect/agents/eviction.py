"""Forgetting whole episodes."""

from __future__ import annotations

import numpy as np

from recollect.memory import Memory

__all__ = ["evict_episodes"]


def evict_episodes(memory: Memory, most: int, episodes: int, fresh: int) -> None:
    """Forget the oldest episodes, now and then, where there are more than are kept.

    Args:
        most: Episodes that are kept.
        episodes: How many there have been.
        fresh: How many of these are new.
    """
    every = max(most // 50, 1)
    if episodes // every == (episodes - fresh) // every:
        return
    found = memory.episodes
    over = np.flatnonzero(found.terminated | found.truncated)
    extra = len(over) - most
    if extra <= 0:
        return
    end = found.start + found.length
    when = end - found.id  # steps that the lane had taken: every episode before it left a closing row
    oldest = over[np.argsort(when[over], kind="stable")[:extra]]
    keep = np.zeros(memory.lanes, np.int64)
    np.maximum.at(keep, found.lane[oldest], end[oldest] + 1)
    for lane in np.flatnonzero(keep):
        memory.forget(int(lane), int(keep[lane]))
