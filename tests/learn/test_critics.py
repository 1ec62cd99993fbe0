"""Critics side by side, and learned temperatures."""

from __future__ import annotations

import torch
from gymnasium import spaces
from torch import nn

from relive.learn.critics import Critics, Temperature

OBS = spaces.Box(-1, 1, (4,))


def test_every_critic_is_a_perceptron_of_observation_and_action() -> None:
    random = torch.Generator().manual_seed(0)
    critics = Critics(2, OBS, 3, hidden=(5,), generator=random)
    obs, action = torch.randn(6, 4, generator=random), torch.randn(6, 3, generator=random)
    q = critics(obs, action)
    assert q.shape == (2, 6, 1)
    layers = critics.networks.named_layers()
    for index in range(2):
        hidden = torch.cat([obs, action], dim=1) @ layers["layers.0.weight"][index] + layers["layers.0.bias"][index]
        wanted = torch.relu(hidden) @ layers["layers.1.weight"][index] + layers["layers.1.bias"][index]
        torch.testing.assert_close(q[index], wanted)
    torch.testing.assert_close(critics.first(obs, action), q[0])
    critics.first(obs, action).sum().backward()
    assert not critics.networks.flat.grad[1].any()
    assert critics.networks.flat.grad[0].any()


def test_critics_of_choices_read_no_action() -> None:
    critics = Critics(3, spaces.Discrete(7), 0, outputs=5, hidden=(4,))
    assert critics(torch.arange(6)).shape == (3, 6, 5)


def test_networks_of_ones_own_get_the_sizes() -> None:
    asked = []

    def make(inputs: int, outputs: int) -> nn.Module:
        asked.append((inputs, outputs))
        return nn.Linear(inputs, outputs)

    critics = Critics(2, OBS, 3, network=make)
    assert asked == [(7, 1), (7, 1)]
    obs, action = torch.randn(6, 4), torch.randn(6, 3)
    torch.testing.assert_close(critics.first(obs, action), critics(obs, action)[0])


def test_an_encoder_that_learns_is_shared() -> None:
    critics = Critics(2, OBS, 0, encoder=lambda _: nn.Linear(4, 8), hidden=(3,))
    first = critics.networks.named_layers()["layers.0.weight"]
    assert first.shape == (2, 8, 3)
    assert sum(parameter.numel() for parameter in critics.encoder.parameters()) == 4 * 8 + 8


def test_temperatures() -> None:
    """alpha = exp(log alpha) has no gradient; log alpha is what learns."""
    temperature = Temperature(0.5)
    torch.testing.assert_close(temperature.alpha, torch.tensor(0.5))
    assert not temperature.alpha.requires_grad
    temperature.log_alpha.data += torch.tensor(3.0).log()
    torch.testing.assert_close(temperature.alpha, torch.tensor(1.5))
