"""Optimisers, their state, and gradients clipped network by network."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from relive.learn import Copies, StackedMLP
from relive.learn.optimizers import (
    clip_grad_norm_each_,
    frozen,
    load_optimizer,
    make_optimizer,
    optimizer_state,
    per_network,
    set_lr,
)
from relive.learn.policies import Encoders


def test_every_network_is_clipped_by_itself() -> None:
    stack = StackedMLP(3, (2, 4, 1))
    copies = Copies(2, lambda: nn.Linear(2, 3))
    encoders = Encoders(2, spaces.Box(-1, 1, (2,)), lambda _: nn.Linear(2, 3))
    module = nn.ModuleList([stack, copies, encoders])
    parts = per_network(module)
    counted = sum(sum(p.numel() for p in part) if isinstance(part, list) else part.numel() for part in parts)
    assert counted == sum(parameter.numel() for parameter in module.parameters())
    random = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random) * 3
    stack.flat.grad[1] *= 1e-3
    before = stack.flat.grad[1].clone()
    clip_grad_norm_each_(parts, 0.5)
    norms = stack.flat.grad.norm(dim=1)
    torch.testing.assert_close(norms[[0, 2]], torch.full((2,), 0.5))
    assert torch.equal(stack.flat.grad[1], before)
    for network in (*copies.networks, *encoders.networks):
        norm = torch.cat([parameter.grad.flatten() for parameter in network.parameters()]).norm()
        assert float(norm) == pytest.approx(0.5, rel=1e-4)
    clip_grad_norm_each_(parts, 0.0)
    assert torch.equal(stack.flat.grad.norm(dim=1), norms)


@pytest.mark.parametrize("name", ["adam", "rmsprop"])
def test_optimizers_go_on_from_their_state(name: str) -> None:
    random = torch.Generator().manual_seed(0)
    networks = [StackedMLP(2, (3, 4, 1), generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    one, two = (make_optimizer(name, network.parameters(), 0.01) for network in networks)
    for step in range(6):
        grad = torch.randn(networks[0].flat.shape, generator=random)
        for network in networks:
            network.flat.grad = grad.clone()
        one.step()
        if step == 2:
            networks[1].load_state_dict(networks[0].state_dict())
            load_optimizer(two, optimizer_state(one))
        elif step > 2:
            two.step()
    assert torch.equal(networks[0].flat, networks[1].flat)


def test_steps_on_paper() -> None:
    """A gradient of 2: Adam's first step is the learning rate whatever the gradient is; RMSprop's is lr * 2 / 0.2."""
    for name, wanted in (("adam", 1.0 - 0.5), ("rmsprop", 1.0 - 0.5 * 2 / (0.2 + 1e-5))):
        weight = nn.Parameter(torch.tensor([1.0]))
        weight.grad = torch.tensor([2.0])
        make_optimizer(name, [weight], 0.5).step()
        assert weight.item() == pytest.approx(wanted, rel=1e-6)
    weight.grad = torch.tensor([2.0])
    optimizer = make_optimizer("rmsprop", [weight], 0.5, eps=0.8)
    set_lr(optimizer, 0.25)
    before = weight.item()
    optimizer.step()
    assert weight.item() == pytest.approx(before - 0.25 * 2 / (0.2 + 0.8), rel=1e-6)


def test_the_mean_of_norms_before_clipping() -> None:
    """Networks of norms 3, 4 (a row of a stack each) and 5: their mean is 4. Without any gradient it is 0."""
    stack, alone = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))
    stack.grad, alone.grad = torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([3.0, 4.0])
    assert clip_grad_norm_each_([stack, [alone]], 2.0).item() == 4.0
    torch.testing.assert_close(stack.grad, torch.tensor([[2.0, 0.0], [0.0, 2.0]]))
    torch.testing.assert_close(alone.grad, torch.tensor([1.2, 1.6]))
    assert clip_grad_norm_each_([nn.Parameter(torch.zeros(2, 2))], 2.0).item() == 0.0


def test_frozen_parameters_get_no_gradient() -> None:
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    x = torch.ones(1, 1, requires_grad=True)
    with frozen(list(second.parameters())):
        second(first(x)).sum().backward()
    assert first.weight.grad is not None
    assert second.weight.grad is None
    assert all(parameter.requires_grad for parameter in second.parameters())
    with pytest.raises(ZeroDivisionError), frozen(list(second.parameters())):
        1 / 0  # noqa: B018
    assert all(parameter.requires_grad for parameter in second.parameters())
