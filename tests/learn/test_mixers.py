"""Mixers: on paper, and that the best joint action is everybody's own best."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from recollect.learn.mixers import QMixer, QPlexMixer

SEEDS = st.integers(0, 2**31)


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


@given(seed=SEEDS, agents=st.integers(1, 4), units=st.integers(1, 5), hypernet=st.integers(0, 5))
def test_q_tot_never_falls_when_an_agents_value_rises(seed: int, agents: int, units: int, hypernet: int) -> None:
    random = torch.Generator().manual_seed(seed)
    mixer = QMixer(agents, 3, units=units, hypernet_units=hypernet, generator=random).double()
    q, state = (torch.randn(7, size, generator=random, dtype=torch.float64) * 3 for size in (agents, 3))
    rise = torch.rand(7, agents, generator=random, dtype=torch.float64)
    assert (mixer(q + rise, state) >= mixer(q, state) - 1e-9).all()


@given(seed=SEEDS, agents=st.integers(1, 3), heads=st.integers(1, 3))
def test_nothing_is_better_than_everybodys_own_best(seed: int, agents: int, heads: int) -> None:
    """All joint actions, one by one."""
    random = torch.Generator().manual_seed(seed)
    mixer = QPlexMixer(agents, 2, 3 * agents, units=4, heads=heads, generator=random).double()
    q = torch.randn(agents, 3, generator=random, dtype=torch.float64)
    state = torch.randn(1, 2, generator=random, dtype=torch.float64)
    totals = {}
    for joint in torch.cartesian_prod(*[torch.arange(3)] * agents).view(-1, agents):
        one_hot = torch.eye(3, dtype=torch.float64)[joint].view(1, -1)
        chosen = q[torch.arange(agents), joint]
        totals[tuple(joint.tolist())] = mixer(chosen[None], q.amax(dim=1)[None], one_hot, state).item()
    best = tuple(q.argmax(dim=1).tolist())
    assert totals[best] >= max(totals.values()) - 1e-9
