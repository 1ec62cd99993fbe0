"""Sequences in the order of torch's PackedSequence."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from relive.learn.sequences import pack_segments, pack_sequences, pack_spans, trim_inactive


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.data())
def test_every_step_is_packed_once_behind_the_one_before_it(rows: int, length: int, data: st.DataObject) -> None:
    lengths = [data.draw(st.integers(1, length)) for _ in range(rows)]
    mask = np.arange(length) < np.array(lengths)[:, None]
    starts = np.array([[data.draw(st.booleans()) for _ in range(length)] for _ in range(rows)])
    segments = pack_segments(starts, mask)
    assert sorted(segments.rows.tolist()) == np.flatnonzero(mask.ravel()).tolist()
    sizes = segments.batch_sizes
    assert (np.diff(sizes) <= 0).all()
    offsets = np.cumsum(sizes) - sizes
    pieces = [
        [int(segments.rows[offsets[t] + piece]) for t in range(len(sizes)) if piece < sizes[t]]
        for piece in range(sizes[0])
    ]
    for piece, places in enumerate(pieces):
        first = places[0]
        assert places == list(range(first, first + len(places)))
        row, column = divmod(first, length)
        assert segments.sequence[piece] == row
        assert segments.carried[piece] == (column == 0 and not starts[row, 0])
        assert column == 0 or starts[row, column]
        assert not starts.ravel()[places[1:]].any()  # an episode never begins inside a piece


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any), data=st.data())
def test_episodes_are_packed_by_time_the_longest_first(lengths: list[int], data: st.DataObject) -> None:
    """Beside loops over times and episodes; and agents' sequences end at their agent's last living step."""
    packed = pack_sequences(np.array(lengths))
    order = sorted(range(len(lengths)), key=lambda e: -lengths[e])
    starts = {e: sum(lengths[:e]) for e in order}  # of steps; an episode has one observation more than steps
    obs, steps = [], []
    for t in range(max(lengths) + 1):
        obs += [(e, t) for e in order if t <= lengths[e]]
        steps += [(e, t) for e in order if t < lengths[e]]
    assert packed.obs.tolist() == [starts[e] + e + t for e, t in obs]
    assert packed.steps.tolist() == [starts[e] + t for e, t in steps]
    assert packed.before.tolist() == [obs.index((e, t)) for e, t in steps]
    assert packed.after.tolist() == [obs.index((e, t + 1)) for e, t in steps]
    assert packed.episode.tolist() == [e for e, _ in steps]
    assert packed.time.tolist() == [t for _, t in steps]
    assert packed.column.tolist() == [order.index(e) for e, _ in steps]
    sizes = [sum(t <= length for length in lengths) for t in range(max(lengths) + 1)]
    assert packed.batch_sizes.tolist() == sizes
    assert packed.offsets.tolist() == [sum(sizes[:t]) for t in range(len(sizes))]

    agents = data.draw(st.integers(1, 3))
    alive = np.array([[data.draw(st.booleans()) for _ in range(agents)] for _ in obs])
    alive[0, 0] = True
    lives = {
        (e, a): max([t + 1 for (which, t), who in zip(obs, alive, strict=True) if which == e and who[a]], default=0)
        for e in order
        for a in range(agents)
    }
    trimmed = trim_inactive(packed, alive)
    ranked = sorted(lives, key=lambda each: -lives[each])
    wanted = [(e, a, t) for t in range(max(lives.values())) for e, a in ranked if t < lives[e, a]]
    assert trimmed.take.tolist() == [obs.index((e, t)) * agents + a for e, a, t in wanted]
    assert trimmed.batch_sizes.tolist() == [sum(t < n for n in lives.values()) for t in range(max(lives.values()))]


@given(spans=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6))
def test_spans_are_packed_by_time_the_longest_first(spans: list[tuple[int, int]]) -> None:
    first, count = (np.array(part) for part in zip(*spans, strict=True))
    packed = pack_spans(first, count, width=8)
    order = [e for e in sorted(range(len(spans)), key=lambda e: -spans[e][1]) if spans[e][1]]
    longest = max(n for _, n in spans)
    assert packed.rows.tolist() == [e * 8 + spans[e][0] + t for t in range(longest) for e in order if t < spans[e][1]]
    assert packed.batch_sizes.tolist() == [sum(t < n for _, n in spans) for t in range(longest)]
    assert packed.sequence.tolist() == order


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 3), st.integers(0, 99))
def test_packing_finds_every_row_again(lengths: list[int], agents: int, seed: int) -> None:
    packed = pack_sequences(np.array(lengths))
    seen = [(b, t) for b, length in enumerate(lengths) for t in range(length + 1)]
    steps = [(b, t) for b, length in enumerate(lengths) for t in range(length)]
    laid = [seen[row] for row in packed.obs]
    assert sorted(laid) == seen
    assert sorted(steps[row] for row in packed.steps) == steps
    assert [t for _, t in laid] == sorted(t for _, t in laid)
    for index, row in enumerate(packed.steps):
        b, t = steps[row]
        assert laid[packed.before[index]] == (b, t)
        assert laid[packed.after[index]] == (b, t + 1)
        assert (packed.episode[index], packed.time[index]) == (b, t)
    present = np.random.default_rng(seed).random((len(seen), agents)) < 0.6
    present[0, 0] = True
    short = trim_inactive(packed, present)
    found = [(*laid[place // agents], place % agents) for place in short.take]
    last = {
        (b, a): max([t for (e, t), there in zip(laid, present[:, a], strict=True) if e == b and there], default=-1)
        for b in range(len(lengths))
        for a in range(agents)
    }
    assert sorted(found) == sorted((b, t, a) for (b, a), end in last.items() for t in range(end + 1))
    starts = np.cumsum(short.batch_sizes) - short.batch_sizes
    for t, (start, count) in enumerate(zip(starts, short.batch_sizes, strict=True)):
        assert all(found[start + i][1] == t for i in range(count))
        if t:  # the same sequence in the same place
            before = starts[t - 1]
            assert all(found[start + i][::2] == found[before + i][::2] for i in range(count))
