"""Target networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import relive as rl
from relive.learn import polyak_update, target_of


def test_targets_follow() -> None:
    """A quarter of the way from 1 to 5 is 2; running means are taken whole."""
    source = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    target = target_of(source)
    assert not any(parameter.requires_grad for parameter in target.parameters())
    for parameter in target.parameters():
        parameter.data.fill_(1.0)
    for parameter in source.parameters():
        parameter.data.fill_(5.0)
    source[1].running_mean.fill_(7.0)
    source[1].num_batches_tracked.fill_(3)
    polyak_update(target, source, 0.25)
    assert all((parameter == 2.0).all() for parameter in target.parameters())
    assert (target[1].running_mean == 7.0).all()
    assert target[1].num_batches_tracked == 3
    polyak_update(target, source, 1.0)
    assert all((parameter == 5.0).all() for parameter in target.parameters())


@pytest.mark.parametrize(
    ("target", "tau", "message"),
    [
        (
            nn.Linear(2, 2, bias=False),
            0.5,
            "target must be made as the source is, got another module. Make it by target_of.",
        ),
        (nn.Linear(2, 2), 0.0, "tau must be above 0 and at most 1, got 0.0"),
    ],
)
def test_targets_refused(target: Any, tau: float, message: str) -> None:
    before = target.weight.clone()
    with pytest.raises(rl.errors.OptionError) as caught:
        polyak_update(target, nn.Linear(2, 2), tau)
    assert str(caught.value) == message
    assert torch.equal(before, target.weight)
