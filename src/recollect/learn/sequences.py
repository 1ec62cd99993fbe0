"""Episodes of a batch in the order of torch's ``PackedSequence``: by time, the longest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

__all__ = [
    "AgentSequences",
    "PackedEpisodes",
    "Segments",
    "Spans",
    "pack_segments",
    "pack_sequences",
    "pack_spans",
    "trim_inactive",
]

Array = np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True)
class PackedEpisodes:
    """Where the rows of a batch of episodes go: ``R`` observations and ``S`` steps, one less an episode.

    The first observations of all episodes come first, then the second ones of those that have one, and so on.
    """

    obs: Array
    """For each observation its row in the batch, ``[R]``."""
    steps: Array
    """For each step its row in the batch, ``[S]``."""
    before: Array
    """The observation before each step, as a place among observations, ``[S]``."""
    after: Array
    """The observation after each step, ``[S]``."""
    episode: Array
    """Each step's episode in the batch, ``[S]``."""
    time: Array
    """Each step's time, ``[S]``."""
    column: Array
    """Each step's episode by length, ``[S]``."""
    batch_sizes: Array
    """Episodes that still have an observation at each time, ``[T + 1]``."""
    offsets: Array
    """Where each time's observations begin, ``[T + 1]``."""


def pack_sequences(lengths: Array) -> PackedEpisodes:
    """How episodes of these lengths are packed.

    >>> packed = pack_sequences(np.array([1, 2]))  # observations are 0 and 1 of the first, 2, 3 and 4 of the second
    >>> packed.obs.tolist(), packed.steps.tolist(), packed.after.tolist()
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
    return PackedEpisodes(
        obs=((starts + np.arange(len(order)))[order] + time)[seeing],
        steps=starts[order][column] + when,
        before=place[when, column],
        after=place[when + 1, column],
        episode=order[column],
        time=when,
        column=column,
        batch_sizes=counts,
        offsets=offsets,
    )


@final
@dataclass(frozen=True, slots=True)
class AgentSequences:
    """Agents' sequences, each as long as its agent lives, longest first."""

    take: Array
    """For each row the place of its agent's observation, among ``[R * A]``."""
    batch_sizes: Array
    """Sequences that are still going at each time."""


def trim_inactive(packed: PackedEpisodes, agent_mask: Array) -> AgentSequences:
    """Sequences without what follows the last step of a dead agent.

    Args:
        agent_mask: Who is alive, ``[R, A]``.
    """
    agents = agent_mask.shape[1]
    when = np.repeat(np.arange(len(packed.batch_sizes)), packed.batch_sizes)
    column = np.arange(len(when)) - packed.offsets[when]
    last = np.zeros((int(packed.batch_sizes[0]), agents), np.int64)
    np.maximum.at(last, column, agent_mask * (when[:, None] + 1))
    lengths = last.ravel()
    order = np.argsort(-lengths, kind="stable")
    longest = lengths[order]
    going = np.arange(longest[0])[:, None] < longest
    step, rank = np.nonzero(going)
    which = order[rank]
    take = (packed.offsets[step] + which // agents) * agents + which % agents
    return AgentSequences(take, going.sum(axis=1))


@final
@dataclass(frozen=True, slots=True)
class Segments:
    """Pieces of sequences ``[B, L]`` within one episode each, packed: by time, the longest first."""

    rows: Array
    """For each packed row its place among ``[B * L]``, ``[R]``."""
    batch_sizes: Array
    """Pieces that are still going at each time."""
    sequence: Array
    """The sequence that each piece is of, ``[S]``."""
    carried: Array
    """Whether a piece goes on from the state that its sequence began with, ``[S]``; else an episode begins."""


def pack_segments(starts: Array, mask: Array) -> Segments:
    """How sequences are packed in which episodes begin.

    >>> segments = pack_segments(np.array([[False, True, False]]), np.array([[True, True, True]]))
    >>> segments.rows.tolist(), segments.batch_sizes.tolist(), segments.carried.tolist()
    ([1, 0, 2], [2, 1], [False, True])

    Args:
        starts: Where an episode begins, ``[B, L]``.
        mask: Where there are steps, ``[B, L]``; those of a sequence are its first ones.
    """
    length = starts.shape[1]
    begins = starts & mask
    begins[:, 0] = mask[:, 0]
    sequence, first = np.nonzero(begins)
    ends = np.append(first[1:], length)
    ends[:-1][sequence[1:] != sequence[:-1]] = length
    lengths = np.minimum(ends, mask.sum(axis=1)[sequence]) - first
    order = np.argsort(-lengths, kind="stable")
    sequence, first, lengths = sequence[order], first[order], lengths[order]
    time = np.arange(lengths[0] if len(lengths) else 0)[:, None]
    going = time < lengths
    return Segments(
        rows=((sequence * length + first) + time)[going],
        batch_sizes=going.sum(axis=1),
        sequence=sequence,
        carried=(first == 0) & ~starts[sequence, first],
    )


@final
@dataclass(frozen=True, slots=True)
class Spans:
    """Rows of sequences ``[B, T]`` that follow each other, packed: by time, the longest first."""

    rows: Array
    """For each packed row its place among ``[B * T]``, ``[R]``."""
    batch_sizes: Array
    """Sequences that are still going at each time."""
    sequence: Array
    """Which sequences they are, ``[S]``; those without a row are left out."""


def pack_spans(first: Array, count: Array, width: int) -> Spans:
    """How some rows of every sequence are packed.

    >>> spans = pack_spans(np.array([1, 0, 2]), np.array([2, 3, 0]), width=4)
    >>> spans.rows.tolist(), spans.batch_sizes.tolist(), spans.sequence.tolist()
    ([4, 1, 5, 2, 6], [2, 2, 1], [1, 0])

    Args:
        first: The first of a sequence's rows, ``[B]``.
        count: How many there are, ``[B]``.
        width: Rows that sequences have place for, T.
    """
    order = np.argsort(-count, kind="stable")
    order = order[count[order] > 0]
    time = np.arange(count[order[0]] if len(order) else 0)[:, None]
    going = time < count[order]
    return Spans(rows=((order * width + first[order]) + time)[going], batch_sizes=going.sum(axis=1), sequence=order)
