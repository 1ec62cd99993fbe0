"""Optimisers, their state, and gradients clipped network by network."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from recollect.learn import Copies, StackedMLP
from recollect.learn.optimizers import (
    clip_grad_norm_each_,
    load_optimizer,
    make_optimizer,
    optimizer_state,
    per_network,
)
from recollect.learn.policies import Encoders


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
