"""Networks: initial weights, names in their state, copies, and who answers for whom."""

from __future__ import annotations

import copy
import io
import math
from typing import Any

import pytest
import torch
from torch import nn

import relive as rl
from refusals import refused
from relive.learn import Copies, PerAgent, QMixer, StackedGRU, StackedLSTM, StackedMLP


def test_initial_weights() -> None:
    random = torch.Generator().manual_seed(0)
    uniform = StackedMLP(2, (100, 50, 10), generator=random)
    layers = uniform.named_layers()
    assert 0.099 < layers["layers.0.weight"].abs().max() <= 0.1
    assert layers["layers.0.bias"].abs().max() <= 0.1
    xavier = StackedMLP(1, (100, 50, 10), init="xavier", generator=random, last_gain=0.01).named_layers()
    bound = math.sqrt(2) * math.sqrt(6 / 150)
    assert 0.99 * bound < xavier["layers.0.weight"].abs().max() <= bound
    assert xavier["layers.1.weight"].abs().max() <= 0.01 * math.sqrt(6 / 60)
    assert not xavier["layers.0.bias"].any()
    square = StackedMLP(1, (40, 20, 40), init="orthogonal", generator=random).named_layers()
    first, second = square["layers.0.weight"][0], square["layers.1.weight"][0]
    torch.testing.assert_close(first.T @ first, 2 * torch.eye(20), atol=1e-5, rtol=0)
    torch.testing.assert_close(second @ second.T, torch.eye(20), atol=1e-5, rtol=0)
    again = StackedMLP(2, (100, 50, 10), generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.flat, uniform.flat)
    assert (uniform.flat[0] != uniform.flat[1]).any()


def test_split_keeps_halves_apart() -> None:
    network = StackedMLP(2, (5, 8, 1), split=3, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        network(torch.randn(4, 5)).sum().backward()
        optimizer.step()
    first = network.named_layers()["layers.0.weight"]
    assert (first[:, :3, 4:] == 0).all()
    assert (first[:, 3:, :4] == 0).all()
    assert (first[:, :3, :4] != 0).any()
    with refused(rl.errors.OptionError, "split"):
        StackedMLP(1, (5, 8, 1), split=5)


PARTS = ("weight", "bias")


NETWORKS = [
    (StackedMLP(2, (3, 4, 1)), [f"layers.{layer}.{part}" for layer in (0, 1) for part in PARTS]),
    (
        StackedGRU(1, inputs=3, units=4, outputs=2),
        [
            f"{name}.{part}"
            for name in ("encode", "gru.gates", "gru.content_input", "gru.content_state", "head")
            for part in PARTS
        ],
    ),
    (
        StackedLSTM(2, inputs=3, units=4, outputs=2),
        [f"{name}.{part}" for name in ("encode", "lstm", "head") for part in PARTS],
    ),
    (
        QMixer(2, 5, units=3, hypernet_units=0),
        [
            *(f"{name}.layers.0.{part}" for name in ("w1", "b1", "w2") for part in PARTS),
            *(f"v.layers.{layer}.{part}" for layer in (0, 1) for part in PARTS),
        ],
    ),
]


@pytest.mark.parametrize(("network", "names"), NETWORKS)
def test_states_have_names_that_mean_something(network: nn.Module, names: list[str]) -> None:
    state = {name: value.clone() for name, value in network.state_dict().items()}
    assert list(state) == names
    other = copy.deepcopy(network)
    for parameter in other.parameters():
        parameter.data.add_(1.0)
    assert all((other.state_dict()[name] == value + 1).all() for name, value in state.items())
    other.load_state_dict(state)
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), other.parameters(), strict=True))
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match="must be"):
        other.load_state_dict({name: value[..., :0] for name, value in state.items()})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict({**state, "more": torch.zeros(1)})


@pytest.mark.parametrize("network", [network for network, _ in NETWORKS])
def test_modules_are_copied_and_moved(network: nn.Module) -> None:
    buffer = io.BytesIO()
    torch.save(network, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), again.parameters(), strict=True))
    assert all(parameter.dtype == torch.float64 for parameter in again.double().parameters())
    assert all(parameter.device.type == "meta" for parameter in again.to("meta").parameters())


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"num_networks": 0}, "num_networks and sizes"),
        ({"sizes": (2,)}, "num_networks and sizes"),
        ({"activation": "selu"}, "activation"),
        ({"init": "zeros"}, "init"),
    ],
)
def test_refusals(options: dict[str, Any], about: str) -> None:
    with refused(rl.errors.OptionError, about):
        StackedMLP(**{"num_networks": 1, "sizes": (2, 1), **options})


def answer(networks: PerAgent, agent: int, member: int, row: torch.Tensor) -> torch.Tensor:
    """What one network says of one row, layer by layer."""
    index = member if networks.shared else agent * networks.ensemble + member
    if networks.ids is not None:
        row = torch.cat([torch.eye(networks.agents)[agent], row])
    stack: Any = networks.networks
    layers = stack.shape.layers(stack.flat)
    for layer, (weight, bias) in enumerate(layers):
        row = row @ weight[index] + bias[index, 0]
        row = row if layer == len(layers) - 1 else torch.relu(row)
    return row


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("ensemble", [1, 3])
@pytest.mark.parametrize("agents", [1, 2, 4])
@pytest.mark.parametrize("together", [False, True])
def test_each_row_is_answered_by_its_agents_network(shared: bool, ensemble: int, agents: int, together: bool) -> None:
    random = torch.Generator().manual_seed(0)
    networks = PerAgent(
        agents,
        lambda count, ids: StackedMLP(count, (3 + ids, 8, 2), generator=random),
        shared=shared,
        ensemble=ensemble,
    )
    values = torch.randn((5, 3) if together else (agents, 5, 3), generator=random)
    index = torch.randint(ensemble, (agents, 5), generator=random)
    asked = values.expand(agents, 5, 3) if together else values
    rows = [[answer(networks, a, int(index[a, b]), asked[a, b]) for b in range(5)] for a in range(agents)]
    wanted = torch.stack([torch.stack(each) for each in rows])
    found = networks(values, ensemble_index=index if ensemble > 1 else None)
    torch.testing.assert_close(found, wanted)
    grads = []
    for outputs in (found, wanted):
        networks.zero_grad()
        outputs.square().sum().backward()
        grads.append([parameter.grad.clone() for parameter in networks.parameters()])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_copies_of_ones_own_are_called_as_stacks_are() -> None:
    stack = StackedMLP(2, (3, 4, 1))
    numbers = iter(range(2))

    def make() -> nn.Module:
        index = next(numbers)
        module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        for layer, (weight, bias) in zip((module[0], module[2]), stack.shape.layers(stack.flat.detach()), strict=True):
            layer.weight.data.copy_(weight[index].T)
            layer.bias.data.copy_(bias[index, 0])
        return module

    copies = Copies(2, make)
    one, two = torch.randn(7, 1), torch.randn(2, 7, 2)
    torch.testing.assert_close(copies(one, two), stack(one, two))
    own = (torch.randn(2, 7, 1), (0, 2))
    torch.testing.assert_close(copies(one, two, own=own), stack(one, two, own=own))
