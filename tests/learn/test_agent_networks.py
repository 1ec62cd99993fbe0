"""Networks of a group of agents over rows and sequences, and how sequences with ends inside are packed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recollect.errors import OptionError
from recollect.learn.agent_networks import AgentNetworks, Packed
from recollect.learn.encoders import Encoder, FlatEncoder
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


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("recurrent", [True, False])
def test_rows_are_agent_by_agent(shared: bool, recurrent: bool) -> None:
    """Each agent's outputs depend on its own inputs and states alone, step by step as all at once."""
    generator = torch.Generator().manual_seed(0)
    nets = AgentNetworks(3, 4, 2, hidden=(5,), shared=shared, recurrent=recurrent, generator=generator)
    x = torch.randn(6, 3, 4, generator=generator)
    state = torch.randn(3, 3, 5, generator=generator) if recurrent else nets.initial_state(3)
    packed = Packed([3, 2, 1], state) if recurrent else None
    outputs, last = nets(x, packed)
    assert outputs.shape == (6, 3, 2)
    changed = x.clone()
    changed[:, 1] += 1
    others = nets(changed, packed)[0]
    torch.testing.assert_close(others[:, [0, 2]], outputs[:, [0, 2]])
    assert not torch.allclose(others[:, 1], outputs[:, 1])
    if recurrent:
        assert last is not None
        h, found = state, []
        for start, count in ((0, 3), (3, 2), (5, 1)):
            out, h = nets(x[start : start + count], Packed([count], h[:count]))
            found.append(out)
        torch.testing.assert_close(torch.cat(found), outputs)
        torch.testing.assert_close(last[:1], h)


def test_who_shares_a_network_is_told_apart_unless_not() -> None:
    x = torch.ones(1, 3, 4)
    assert AgentNetworks(3, 4, 2)(x)[0].unique(dim=1).shape[1] == 3
    assert AgentNetworks(3, 4, 2, agent_id=False)(x)[0].unique(dim=1).shape[1] == 1


def test_a_network_of_ones_own() -> None:
    nets = AgentNetworks(2, 4, 3, network=nn.Linear, shared=False)
    assert nets(torch.zeros(5, 2, 4))[0].shape == (5, 2, 3)
    with pytest.raises(OptionError, match=r"^packed must be given to recurrent networks, got None$"):
        AgentNetworks(2, 4, 3, recurrent=True)(torch.zeros(5, 2, 4))


def test_the_flat_encoder() -> None:
    picture = spaces.Box(0, 255, (4, 4, 2), np.uint8)
    found = Encoder(picture, FlatEncoder)(torch.full((3, 5, 4, 4, 2), 51, dtype=torch.uint8))
    assert found.shape == (3, 5, 32)
    torch.testing.assert_close(found, torch.full_like(found, 0.2))
    with pytest.raises(OptionError, match=r"^observation space must be a Box for a flat encoder, got Discrete\(3\)$"):
        FlatEncoder(spaces.Discrete(3))
