"""Mixers: on paper, and that the best joint action is everybody's own best."""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from relive.learn.mixers import QMixer, QPlexMixer


def set_layers(network: nn.Module, **values: list[list[float]] | list[float]) -> None:
    """Weights ``[in, out]`` and biases of the only network of a stack."""
    layers = network.named_layers()
    for name, value in values.items():
        layer, _, part = name.partition("_")
        layers[f"layers.{layer[1:]}.{part}"].data[0] = torch.tensor(value)


def test_qmix_on_paper() -> None:
    """Two agents, one unit, a state of 2.

    W1 = |(-1, 0.5)| * 2 = (2, 1), b1 = -5, W2 = |-1.5| * 2 = 3 and V(s) = max(0, 2) * 10 + 1 = 21: with Q of (1, 4) the
    hidden unit is elu(2 + 4 - 5) = 1 and Q_tot is 3 + 21; with (1, 1) it is elu(-2) = e^-2 - 1.
    """
    mixer = QMixer(2, 1, units=1, hypernet_units=0)
    set_layers(mixer.w1, l0_weight=[[-1.0, 0.5]], l0_bias=[0.0, 0.0])
    set_layers(mixer.b1, l0_weight=[[-2.5]], l0_bias=[0.0])
    set_layers(mixer.w2, l0_weight=[[-1.5]], l0_bias=[0.0])
    set_layers(mixer.v, l0_weight=[[1.0]], l0_bias=[0.0], l1_weight=[[10.0]], l1_bias=[1.0])
    found = mixer(torch.tensor([[1.0, 4.0], [1.0, 1.0]]), torch.tensor([[2.0], [2.0]]))
    torch.testing.assert_close(found, torch.tensor([24.0, 3 * (math.exp(-2) - 1) + 21]))


def test_qplex_on_paper() -> None:
    """Two agents, one head, a state of 2, networks whose hidden unit is the state itself.

    w = |(1, -2)| * 2 = (2, 4), b = (1, 2); lambda = |key| * sigmoid(0) * sigmoid(0) = 6 / 4 = 1.5. With Q of (1, 3) of
    at best (2, 3): 2 * 1 + 4 * 3 + 3 + 0.5 * 2 * (1 - 2) = 16.
    """
    mixer = QPlexMixer(2, 1, 2, units=1, heads=1)
    own = {"l0_weight": [[1.0]], "l0_bias": [0.0]}
    set_layers(mixer.w, **own, l1_weight=[[1.0, -2.0]], l1_bias=[0.0, 0.0])
    set_layers(mixer.b, **own, l1_weight=[[0.5, 1.0]], l1_bias=[0.0, 0.0])
    set_layers(mixer.key, **own, l1_weight=[[-3.0]], l1_bias=[0.0])
    set_layers(mixer.agent, **own, l1_weight=[[0.0, 0.0]], l1_bias=[0.0, 0.0])
    set_layers(mixer.action, l0_weight=[[0.0]] * 3, l0_bias=[0.0], l1_weight=[[1.0, 1.0]], l1_bias=[0.0, 0.0])
    state, action = torch.tensor([[2.0]]), torch.tensor([[1.0, 0.0]])
    torch.testing.assert_close(mixer.importance(state, action), torch.tensor([[1.5, 1.5]]))
    q, best = torch.tensor([[1.0, 3.0]], requires_grad=True), torch.tensor([[2.0, 3.0]])
    found = mixer(q, best, action, state)
    torch.testing.assert_close(found, torch.tensor([16.0]))
    found.backward()
    torch.testing.assert_close(q.grad, torch.tensor([[2.0, 4.0]]))  # none comes by the advantage


@given(st.data())
def test_a_mixed_value_never_falls_when_one_rises(data: Any) -> None:
    agents, state = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 20))
    hyper = data.draw(st.sampled_from([0, 3, 16]))
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    mixer = QMixer(agents, state, units=data.draw(st.integers(1, 40)), hypernet_units=hyper, generator=random)
    values, where = torch.randn(64, agents, generator=random) * 5, torch.randn(64, state, generator=random) * 3
    before = mixer(values, where)
    for agent in range(agents):
        higher = values.clone()
        higher[:, agent] += torch.rand(64, generator=random)
        assert (mixer(higher, where) >= before - 1e-4).all()
    values.requires_grad_()
    mixer(values, where).sum().backward()
    assert (values.grad >= 0).all()


@settings(max_examples=50)
@given(st.data())
def test_nothing_is_better_than_everybodys_best(data: Any) -> None:
    """QPLEX: Q_tot of every joint action lies below that of all agents' best ones, and reaches it there alone."""
    agents, choices, size = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 4)), data.draw(st.integers(1, 9))
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    heads = data.draw(st.integers(1, 5))
    mixer = QPlexMixer(agents, size, agents * choices, units=6, heads=heads, generator=random)
    q = torch.randn(agents, choices, generator=random) * 3
    joint = torch.cartesian_prod(*[torch.arange(choices)] * agents).view(-1, agents)
    values = q[torch.arange(agents), joint]
    one_hot = torch.nn.functional.one_hot(joint, choices).flatten(1).float()
    state = torch.randn(1, size, generator=random).expand(len(joint), -1)
    total = mixer(values, q.max(dim=1).values.expand(len(joint), -1), one_hot, state)
    best = int((values == q.max(dim=1).values).all(dim=1).nonzero())
    assert (total[best] > total[torch.arange(len(joint)) != best]).all()
