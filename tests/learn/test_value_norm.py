"""Values less a running mean over a running deviation, and popart."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from refusals import refused
from relive.errors import OptionError
from relive.learn.agent_networks import AgentNetworks
from relive.learn.value_norm import ValueNorm


def test_popart_keeps_values() -> None:
    networks = AgentNetworks(2, 3, 1, hidden=(4,), shared=False)
    norm, x = ValueNorm("popart", networks), torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0))
    for returns in (torch.tensor([3.0, 5.0]), torch.tensor([-40.0, 90.0]), torch.tensor([1000.0])):
        before = norm.denormalize(networks(x)[0])
        norm.update(returns, None, networks)
        torch.testing.assert_close(norm.denormalize(networks(x)[0]), before, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(norm.denormalize(norm.normalize(returns)), returns)


@pytest.mark.parametrize("kind", ["none", "running", "popart"])
def test_returns_of_one_and_three(kind: str) -> None:
    """Their mean is 2 and their deviation 1: a value of 5 is an output of 3. Whoever does not count is left out."""
    networks = AgentNetworks(1, 3, 1, hidden=(4,))
    norm = ValueNorm(kind, networks)
    norm.update(torch.tensor([1.0, 3.0, 77.0]), torch.tensor([True, True, False]), networks)
    values = torch.tensor([5.0, 2.0])
    outputs = values if kind == "none" else torch.tensor([3.0, 0.0])
    torch.testing.assert_close(norm.normalize(values), outputs)
    torch.testing.assert_close(norm.denormalize(outputs), values)
    # the critic gave 5 for 5 before, and by popart its last layer says 3 for it now
    torch.testing.assert_close(norm.outputs_before(values), outputs if kind == "popart" else values)


def test_popart_needs_a_last_layer() -> None:
    with refused(OptionError, "value_norm", got="'popart'"):
        ValueNorm("popart", AgentNetworks(1, 3, 1, network=nn.Linear))


def test_statistics_go_on_from_their_state() -> None:
    networks = AgentNetworks(1, 3, 1, hidden=(4,))
    one, other = ValueNorm("running", networks), ValueNorm("running", networks)
    one.update(torch.tensor([1.0, 3.0]), None, networks)
    other.load_state_dict(one.state_dict())
    for norm in (one, other):
        norm.update(torch.tensor([8.0]), None, networks)
    torch.testing.assert_close(other.mean, torch.tensor(4.0))
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.std, other.std)


def test_outputs_before_are_in_the_units_of_before() -> None:
    """Of mean 2 and deviation 1 a value of 5 was an output of 3, whatever came after."""
    networks = AgentNetworks(1, 3, 1, hidden=(4,))
    norm = ValueNorm("running", networks)
    norm.update(torch.tensor([1.0, 3.0]), None, networks)
    norm.update(torch.tensor([50.0, -20.0]), None, networks)
    torch.testing.assert_close(norm.outputs_before(torch.tensor(5.0)), torch.tensor(3.0))
