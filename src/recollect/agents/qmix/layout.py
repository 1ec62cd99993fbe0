"""Episodes of a batch laid out by time, the longest first: how recurrent networks read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

__all__ = ["Layout", "Sequences", "laid_out", "shortened"]

Array = np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of packed episodes go, ``R`` things seen and ``S`` steps, one less an episode.

    Seen are the first observations of all episodes, then the second ones of those that have one, and so on.
    """

    seen: Array
    """For each thing seen its row in the batch, ``[R]``."""
    steps: Array
    """For each step its row in the batch, ``[S]``."""
    first: Array
    """What was seen before each step: a place among what is seen, ``[S]``."""
    nexts: Array
    """What was seen after each step, ``[S]``."""
    episode: Array
    """Each step's episode in the batch, ``[S]``."""
    time: Array
    """Each step's time, ``[S]``."""
    column: Array
    """Each step's episode by length, ``[S]``."""
    counts: Array
    """Episodes that still see something at each time, ``[T + 1]``."""
    offsets: Array
    """Where each time's things seen begin, ``[T + 1]``."""


def laid_out(lengths: Array) -> Layout:
    """The layout of packed episodes of these lengths.

    >>> layout = laid_out(np.array([1, 2]))  # rows seen are 0 and 1 of the first, 2, 3 and 4 of the second
    >>> layout.seen.tolist(), layout.steps.tolist(), layout.nexts.tolist()
    ([2, 0, 3, 1, 4], [1, 0, 2], [2, 3, 4])
    """
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[order]
    time = np.arange(sorted_lengths[0] + 1)[:, None]
    seeing, stepping = time <= sorted_lengths, time < sorted_lengths
    counts = seeing.sum(axis=1)
    offsets = np.cumsum(counts) - counts
    place = offsets[:, None] + np.arange(len(order))
    starts = np.cumsum(lengths) - lengths
    when, column = np.nonzero(stepping)
    return Layout(
        seen=((starts + np.arange(len(order)))[order] + time)[seeing],
        steps=starts[order][column] + when,
        first=place[when, column],
        nexts=place[when + 1, column],
        episode=order[column],
        time=when,
        column=column,
        counts=counts,
        offsets=offsets,
    )


@final
@dataclass(frozen=True, slots=True)
class Sequences:
    """Agents' sequences, each as long as its agent is there, longest first."""

    take: Array
    """For each row the place of what its agent saw, among all that agents saw ``[R * A]``."""
    counts: Array
    """Sequences that are still going at each time."""


def shortened(layout: Layout, present: Array) -> Sequences:
    """Sequences without what follows the last time that an agent was there.

    Args:
        present: Who was there, ``[R, A]`` as laid out.
    """
    agents = present.shape[1]
    when = np.repeat(np.arange(len(layout.counts)), layout.counts)
    column = np.arange(len(when)) - layout.offsets[when]
    last = np.zeros((int(layout.counts[0]), agents), np.int64)
    np.maximum.at(last, column, present * (when[:, None] + 1))
    lengths = last.ravel()
    order = np.argsort(-lengths, kind="stable")
    longest = lengths[order]
    going = np.arange(longest[0])[:, None] < longest
    step, rank = np.nonzero(going)
    which = order[rank]
    take = (layout.offsets[step] + which // agents) * agents + which % agents
    return Sequences(take, going.sum(axis=1))
