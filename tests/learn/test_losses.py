"""Losses, by numbers worked out on paper."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relive.learn.losses import TD_LOSSES, clipped_surrogate, clipped_value, masked_mean, rescaled, rescaled_inverse


def test_losses_of_errors() -> None:
    errors = torch.tensor([0.5, -3.0])
    assert TD_LOSSES["mse"](errors).tolist() == [0.25, 9.0]
    assert TD_LOSSES["huber"](errors).tolist() == [0.125, 2.5]


def test_masked_means() -> None:
    values, nobody = torch.tensor([1.0, 3.0, 9.0]), torch.zeros(3, dtype=torch.bool)
    assert masked_mean(values, None).item() == pytest.approx(13 / 3)
    assert masked_mean(values, torch.tensor([True, True, False])).item() == 2.0
    assert masked_mean(values, nobody).item() == 0.0


@given(value=st.floats(-1e6, 1e6))
def test_rescaling_there_and_back(value: float) -> None:
    """h grows, shrinks what is large, and its inverse gives the value back."""
    x = torch.tensor(value, dtype=torch.float64)
    assert rescaled_inverse(rescaled(x)).item() == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert rescaled(x + 1) > rescaled(x)
    assert rescaled(-x) == -rescaled(x)


def test_rescaling_on_paper() -> None:
    """h(3) = sqrt(4) - 1 + 0.003; h(-8) = -(sqrt(9) - 1) - 0.008."""
    torch.testing.assert_close(rescaled(torch.tensor([0.0, 3.0, -8.0])), torch.tensor([0.0, 1.003, -2.008]))


def test_three_numbers_on_paper() -> None:
    """One agent, one choice of two: ratio 1.5 of advantage 2 is clipped to 1.2; of advantage -2 it is not."""
    ratio, advantage = torch.tensor([1.5, 1.5, 0.5]), torch.tensor([2.0, -2.0, -2.0])
    torch.testing.assert_close(clipped_surrogate(ratio, advantage, 0.2), torch.tensor([2.4, -3.0, -1.6]))
    value = clipped_value(torch.tensor(2.0), torch.tensor(1.0), torch.tensor(3.0), 0.2, torch.square)
    assert value.item() == pytest.approx((3 - 1.2) ** 2)
