"""Layers with noise: their means, their deviations, and what is drawn."""

from __future__ import annotations

import torch
from scipy import stats

from relive.learn.noisy import NoisyLinear, NoisyMLP, draw_noise, without_noise

FALSE_ALARM = 1e-6


def test_on_paper() -> None:
    """Noise of 2 in and 3 out: (1 + 0.5 * 6) * 10 + 4 + 0.1 * 3 = 44.3."""
    layer = NoisyLinear(1, 1, sigma=0.5)
    for parameter, value in (
        (layer.weight, 1.0),
        (layer.weight_sigma, 0.5),
        (layer.bias, 4.0),
        (layer.bias_sigma, 0.1),
    ):
        parameter.data.fill_(value)
    layer.noise_in.fill_(2.0)
    layer.noise_out.fill_(3.0)
    torch.testing.assert_close(layer(torch.tensor([10.0])), torch.tensor([44.3]))
    layer.clear()
    torch.testing.assert_close(layer(torch.tensor([10.0])), torch.tensor([14.0]))


def test_deviations_start_from_sigma_over_the_root_of_inputs() -> None:
    layer = NoisyLinear(16, 3, sigma=0.5)
    assert (layer.weight_sigma == 0.125).all()
    assert (layer.bias_sigma == 0.125).all()
    assert layer.weight.abs().max() <= 0.25
    assert layer.bias.abs().max() <= 0.25


def test_noise_is_a_signed_root_of_normal_numbers() -> None:
    layer = NoisyLinear(4_000, 3_000, sigma=0.5)
    layer.draw(torch.Generator().manual_seed(0))
    for noise in (layer.noise_in, layer.noise_out):
        assert stats.kstest((noise.sign() * noise.square()).numpy(), "norm").pvalue > FALSE_ALARM


def test_noise_stays_until_it_is_drawn_again_and_is_no_state() -> None:
    random = torch.Generator().manual_seed(0)
    network = NoisyMLP((3, 4, 2), activation="relu", sigma=0.5, generator=random)
    x = torch.randn(5, 3, generator=random)
    mean = network(x)
    draw_noise(network, random)
    drawn = network(x)
    assert torch.equal(network(x), drawn)
    assert (drawn != mean).any()
    draw_noise(network, random)
    assert (network(x) != drawn).any()
    without_noise(network)
    assert torch.equal(network(x), mean)
    names = [f"layers.{layer}.{part}" for layer in (0, 1) for part in ("weight", "bias", "weight_sigma", "bias_sigma")]
    assert list(network.state_dict()) == names
    first, last = network.layers
    torch.testing.assert_close(mean, torch.relu(x @ first.weight.T + first.bias) @ last.weight.T + last.bias)
