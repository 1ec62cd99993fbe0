"""Q of every choice: dueling, of distributions, with noise."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from refusals import refused
from relive.errors import OptionError
from relive.learn.noisy import NoisyMLP
from relive.learn.q_network import QNetwork

OBS, ACTION = spaces.Box(-1, 1, (2,)), spaces.Discrete(3, start=5)


class Given(nn.Module):
    """A network that says the same of every observation."""

    def __init__(self, outputs: list[float]) -> None:
        super().__init__()
        self.outputs = nn.Parameter(torch.tensor(outputs))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.outputs.expand(len(features), -1)


def given(*outputs: list[float]):
    """Networks that give these outputs, in the order in which they are made."""
    left = list(outputs)

    def make(_: int, count: int) -> nn.Module:
        assert len(left[0]) == count
        return Given(left.pop(0))

    return make


def test_dueling_on_paper() -> None:
    """Advantages 1, 2, 6 of mean 3 and a value of 10: Q is 8, 9, 13."""
    network = QNetwork(OBS, ACTION, dueling=True, network=given([1.0, 2.0, 6.0], [10.0]))
    torch.testing.assert_close(network(torch.zeros(2, 2)), torch.tensor([[8.0, 9.0, 13.0]]).expand(2, 3))


def test_the_mean_of_categories_on_paper() -> None:
    """Atoms at -1, 0 and 1; logits of ln 1, ln 1 and ln 2 are a quarter, a quarter and a half: Q is 0.25."""
    logits = torch.tensor([1.0, 1.0, 2.0]).log().tolist()
    settings = {"distribution": "c51", "atoms": 3, "v_min": -1.0, "v_max": 1.0}
    network = QNetwork(OBS, ACTION, **settings, network=given(logits * 3))
    distribution = network.distribution(torch.zeros(1, 2))
    torch.testing.assert_close(distribution, torch.tensor([0.25, 0.25, 0.5]).expand(1, 3, 3))
    torch.testing.assert_close(network(torch.zeros(1, 2)), torch.full((1, 3), 0.25))


def test_the_mean_of_quantiles_on_paper() -> None:
    quantiles = [1.0, 3.0, 0.0, 8.0, -2.0, 0.0]
    network = QNetwork(OBS, ACTION, distribution="qr", atoms=2, network=given(quantiles))
    torch.testing.assert_close(network(torch.zeros(1, 2)), torch.tensor([[2.0, 4.0, -1.0]]))


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("kind", ["none", "c51", "qr"])
@pytest.mark.parametrize("noisy", [0.0, 0.5])
def test_shapes_and_which_networks_are_alone(dueling: bool, kind: str, noisy: float) -> None:
    network = QNetwork(OBS, ACTION, dueling=dueling, distribution=kind, atoms=4, noisy_sigma=noisy, hidden=(5,))
    atoms = 1 if kind == "none" else 4
    assert network.outputs(torch.zeros(7, 2)).shape == (7, 3, atoms)
    assert network(torch.zeros(7, 2)).shape == (7, 3)
    assert (network.actions, network.start, network.atoms) == (3, 5, atoms)
    assert isinstance(network.advantage, NoisyMLP) == bool(noisy)
    alone = not dueling and kind == "none" and not noisy
    assert (network.plain is network.advantage) == alone


def test_actions_that_are_no_choices() -> None:
    with refused(OptionError, "action space", got="Box(-1.0, 1.0, (2,), float32)"):
        QNetwork(OBS, spaces.Box(-1, 1, (2,)))
