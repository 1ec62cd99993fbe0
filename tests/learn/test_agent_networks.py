"""Networks of a group of agents over rows and sequences, and how sequences with ends inside are packed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from refusals import refused
from relive.errors import OptionError
from relive.learn.agent_networks import AgentNetworks, Packed


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
    with refused(OptionError, "packed", got="None"):
        AgentNetworks(2, 4, 3, recurrent=True)(torch.zeros(5, 2, 4))
