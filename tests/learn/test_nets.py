"""Networks by agent and member, beside a loop over rows; targets that follow modules."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import recollect as rc
from recollect.learn import Nets, copy_module, follow_module


def _one(nets: Nets, agent: int, member: int, row: torch.Tensor) -> torch.Tensor:
    """What one network says of one row, layer by layer."""
    index = member if nets.shared else agent * nets.members + member
    if nets.extra:
        row = torch.cat([torch.eye(nets.agents)[agent], row])
    for layer, (weight, bias) in enumerate(zip(nets.stack.weights, nets.stack.biases, strict=True)):
        row = row @ weight[index] + bias[index, 0]
        row = row if layer == len(nets.stack.weights) - 1 else torch.relu(row)
    return row


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("agents", [1, 2, 4])
@pytest.mark.parametrize("together", [False, True])
def test_each_row_is_answered_by_its_agents_member(shared: bool, members: int, agents: int, together: bool) -> None:
    random = torch.Generator().manual_seed(0)
    nets = Nets(agents, (3, 8, 2), shared=shared, members=members, generator=random)
    values = torch.randn((5, 3) if together else (agents, 5, 3), generator=random)
    member = torch.randint(members, (agents, 5), generator=random)
    asked = values if together is False else values.expand(agents, 5, 3)
    wanted = torch.stack(
        [torch.stack([_one(nets, a, int(member[a, b]), asked[a, b]) for b in range(5)]) for a in range(agents)]
    )
    found = nets(values, member if members > 1 else None)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("members", [1, 3])
def test_gradients_are_autograds(shared: bool, members: int) -> None:
    random = torch.Generator().manual_seed(0)
    nets = Nets(2, (3, 8, 4), shared=shared, members=members, generator=random)
    values = torch.randn(2, 6, 3, generator=random)
    member = torch.randint(members, (2, 6), generator=random) if members > 1 else None
    slope = torch.randn(2, 6, 4, generator=random)
    with torch.no_grad():
        _, trace = nets.trace(values, member)
        nets.backward(trace, slope, member)
    leaves = [part.detach().clone().requires_grad_() for part in (*nets.stack.weights, *nets.stack.biases)]
    nets.stack.weights, nets.stack.biases = leaves[:2], leaves[2:]
    total = torch.zeros(())
    for agent in range(2):
        for row in range(6):
            which = 0 if member is None else int(member[agent, row])
            total = total + (_one(nets, agent, which, values[agent, row]) * slope[agent, row]).sum()
    total.backward()
    for leaf, found in zip(leaves, (*nets.stack._weight_grads, *nets.stack._bias_grads), strict=True):
        torch.testing.assert_close(found, leaf.grad, rtol=1e-4, atol=1e-5)


def test_targets_of_modules_follow() -> None:
    """A quarter of the way from 1 to 5 is 2; running means are taken whole."""
    source = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    target = copy.deepcopy(source)
    for parameter in target.parameters():
        parameter.data.fill_(1.0)
    for parameter in source.parameters():
        parameter.data.fill_(5.0)
    source[1].running_mean.fill_(7.0)
    source[1].num_batches_tracked.fill_(3)
    follow_module(target, source, 0.25)
    assert all((parameter == 2.0).all() for parameter in target.parameters())
    assert (target[1].running_mean == 7.0).all()
    assert target[1].num_batches_tracked == 3
    copy_module(target, source)
    assert all((parameter == 5.0).all() for parameter in target.parameters())
    assert all(parameter.requires_grad for parameter in target.parameters())


@pytest.mark.parametrize(
    ("target", "part", "message"),
    [
        (nn.Linear(2, 2, bias=False), 0.5, "target must have the parameters that the source has, got bias"),
        (nn.Linear(2, 2), 0.0, "part must be above 0 and at most 1, got 0.0"),
    ],
)
def test_refused(target: Any, part: float, message: str) -> None:
    before = target.weight.clone()
    with pytest.raises(rc.errors.OptionError) as caught:
        follow_module(target, nn.Linear(2, 2), part)
    assert str(caught.value).startswith(message)
    assert torch.equal(before, target.weight)
