"""Noise that explores, and epsilon-greedy choices."""

from __future__ import annotations

import torch
from scipy import stats

from recollect.learn import GaussianNoise, OrnsteinUhlenbeck

FALSE_ALARM = 1e-6


def test_noise() -> None:
    random = torch.Generator().manual_seed(0)
    drawn = GaussianNoise()(torch.zeros(2, 50, 100), 0.3, random)
    assert stats.kstest(drawn.flatten().numpy() / 0.3, "norm").pvalue > FALSE_ALARM
    walk, like = OrnsteinUhlenbeck(theta=0.25), torch.zeros(1, 2, 1)
    steps = torch.empty(3, 1, 2, 1)
    check = torch.Generator().manual_seed(5)
    for step in steps:
        step.normal_(generator=check)
    random = torch.Generator().manual_seed(5)
    torch.testing.assert_close(walk(like, 0.5, random), 0.5 * steps[0])
    torch.testing.assert_close(walk(like, 0.5, random), 0.75 * 0.5 * steps[0] + 0.5 * steps[1])
    kept = walk.state_dict()
    walk.reset(torch.tensor([True, False]))
    again = OrnsteinUhlenbeck(theta=0.25)
    again.load_state_dict(kept)
    found = walk(like, 0.5, random)
    random = torch.Generator().manual_seed(5)
    for step in steps[:2]:
        step.normal_(generator=random)
    other = again(like, 0.5, random)
    torch.testing.assert_close(found[0, 0], 0.5 * steps[2, 0, 0])
    torch.testing.assert_close(found[0, 1], other[0, 1])
