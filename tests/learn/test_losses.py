"""Losses, by numbers worked out on paper."""

from __future__ import annotations

import torch

from recollect.learn.losses import TD_LOSSES


def test_losses_of_errors() -> None:
    errors = torch.tensor([0.5, -3.0])
    assert TD_LOSSES["mse"](errors).tolist() == [0.25, 9.0]
    assert TD_LOSSES["huber"](errors).tolist() == [0.125, 2.5]
