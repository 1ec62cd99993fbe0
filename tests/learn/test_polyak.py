"""Target networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import relive as rl
from refusals import refused
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
    ("target", "tau", "about"),
    [
        (
            nn.Linear(2, 2, bias=False),
            0.5,
            "target",
        ),
        (nn.Linear(2, 2), 0.0, "tau"),
    ],
)
def test_targets_refused(target: Any, tau: float, about: str) -> None:
    before = target.weight.clone()
    with refused(rl.errors.OptionError, about):
        polyak_update(target, nn.Linear(2, 2), tau)
    assert torch.equal(before, target.weight)
