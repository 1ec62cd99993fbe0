"""Sequences in the order of torch's PackedSequence."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.learn.sequences import pack_segments


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
