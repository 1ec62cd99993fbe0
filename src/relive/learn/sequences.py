"""Episodes of a batch in the order of torch's ``PackedSequence``: by time, the longest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from relive.types import Array

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


@final
@dataclass(frozen=True, slots=True)
class PackedEpisodes:
    """The packed order of a batch of episodes: ``R`` observations and ``S`` steps (one fewer in each episode).

    The first observations of all episodes come first, then the second ones of those that have one, and so on.
    """

    obs: Array
    """Each observation's row in the batch, ``[R]``."""
    steps: Array
    """Each step's row in the batch, ``[S]``."""
    before: Array
    """Each step's observation, as an index into the packed observations, ``[S]``."""
    after: Array
    """Each step's next observation, as such an index, ``[S]``."""
    episode: Array
    """Each step's episode in the batch, ``[S]``."""
    time: Array
    """Each step's time, ``[S]``."""
    column: Array
    """Each step's episode, numbered from the longest, ``[S]``."""
    batch_sizes: Array
    """Episodes that have an observation at each time, ``[T + 1]``: the ``batch_sizes`` of ``PackedSequence``."""
    offsets: Array
    """The index of each time's first observation, ``[T + 1]``."""


def pack_sequences(lengths: Array) -> PackedEpisodes:
    """The packing of episodes with these lengths.

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
    """Sequences of single agents, each as long as the agent lives, longest first."""

    take: Array
    """Each row's index into the flattened observations ``[R * A]``."""
    batch_sizes: Array
    """Sequences still running at each time."""


def trim_inactive(packed: PackedEpisodes, agent_mask: Array) -> AgentSequences:
    """Agents' sequences, trimmed after each agent's last active step.

    Args:
        agent_mask: True where an agent is alive, ``[R, A]``.
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
    """Sequences ``[B, L]`` split at episode starts, packed: by time, the longest segment first."""

    rows: Array
    """Each packed row's index into ``[B * L]``, ``[R]``."""
    batch_sizes: Array
    """Segments still running at each time."""
    sequence: Array
    """Each segment's sequence, ``[S]``."""
    carried: Array
    """Whether a segment continues from its sequence's initial state, ``[S]``; else an episode starts."""


def pack_segments(starts: Array, mask: Array) -> Segments:
    """The packing of sequences, split where episodes start.

    >>> segments = pack_segments(np.array([[False, True, False]]), np.array([[True, True, True]]))
    >>> segments.rows.tolist(), segments.batch_sizes.tolist(), segments.carried.tolist()
    ([1, 0, 2], [2, 1], [False, True])

    Args:
        starts: True at an episode's first step, ``[B, L]``.
        mask: True at real steps, ``[B, L]``; padding is at the end.
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
    """A contiguous span of each sequence ``[B, T]``, packed: by time, the longest first."""

    rows: Array
    """Each packed row's index into ``[B * T]``, ``[R]``."""
    batch_sizes: Array
    """Sequences still running at each time."""
    sequence: Array
    """The sequences, ``[S]``; those with an empty span are left out."""


def pack_spans(first: Array, count: Array, width: int) -> Spans:
    """The packing of one span of every sequence.

    >>> spans = pack_spans(np.array([1, 0, 2]), np.array([2, 3, 0]), width=4)
    >>> spans.rows.tolist(), spans.batch_sizes.tolist(), spans.sequence.tolist()
    ([4, 1, 5, 2, 6], [2, 2, 1], [1, 0])

    Args:
        first: Each span's first row, ``[B]``.
        count: Each span's length, ``[B]``.
        width: The padded length T of the sequences.
    """
    order = np.argsort(-count, kind="stable")
    order = order[count[order] > 0]
    time = np.arange(count[order[0]] if len(order) else 0)[:, None]
    going = time < count[order]
    return Spans(rows=((order * width + first[order]) + time)[going], batch_sizes=going.sum(axis=1), sequence=order)
