"""Noise that explores, and epsilon-greedy choices."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from refusals import refused
from relive.errors import OptionError
from relive.learn.exploration import GaussianNoise, OrnsteinUhlenbeck, epsilon_greedy, greedy

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


def test_the_best_action_that_may_be_taken() -> None:
    q = torch.tensor([[1.0, 3.0, 2.0], [4.0, 3.0, 5.0]])
    assert greedy(q).tolist() == [1, 2]
    mask = torch.tensor([[True, False, True], [True, True, False]])
    assert greedy(q, mask).tolist() == [2, 0]
    assert epsilon_greedy(q, 0.0, None, mask).tolist() == [2, 0]


@pytest.mark.parametrize(("epsilon", "masked"), [(0.3, False), (0.3, True), (1.0, True)])
def test_actions_come_as_often_as_epsilon_says(epsilon: float, masked: bool) -> None:
    """Of n that may be taken the best comes with 1 - epsilon + epsilon / n, each other with epsilon / n."""
    rows, mask = 20_000, torch.tensor([True, not masked, True, True])
    q = torch.tensor([0.0, 9.0 if masked else -1.0, 1.0, 0.5]).expand(rows, 4)
    drawn = epsilon_greedy(q, epsilon, torch.Generator().manual_seed(0), mask.expand(rows, 4))
    counts = torch.bincount(drawn, minlength=4)
    assert not counts[~mask].any()
    wanted = torch.full((4,), epsilon / int(mask.sum()), dtype=torch.float64)
    wanted[2] += 1 - epsilon
    assert stats.chisquare(counts[mask].numpy(), (wanted[mask] * rows).numpy()).pvalue > FALSE_ALARM


def test_a_walk_that_cannot_be() -> None:
    with refused(OptionError, "theta and dt", got="0.0 and 1.0"):
        OrnsteinUhlenbeck(theta=0.0, dt=1.0)
