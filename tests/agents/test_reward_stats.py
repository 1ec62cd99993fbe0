"""What rewards can add up to."""

from __future__ import annotations

import math

import pytest
import torch

from relive.agents.reward_stats import RewardStats


@pytest.mark.parametrize(
    ("gamma", "rewards", "bounds"),
    [
        (0.5, [-1.0, 3.0], (-2.0, 6.0)),
        (0.5, [-3.0, -1.0], (-6.0, -1.0)),  # an episode may end after one more step
        (0.5, [1.0, 3.0], (1.0, 6.0)),
        (0.0, [-1.0, 3.0], (-1.0, 3.0)),
        (1.0, [-1.0, 3.0], (-math.inf, math.inf)),
        (1.0, [0.0, 3.0], (0.0, math.inf)),
    ],
)
def test_what_rewards_can_add_up_to(gamma: float, rewards: list[float], bounds: tuple[float, float]) -> None:
    stats = RewardStats(1, standardize=False)
    assert stats.bounds(gamma) == (-math.inf, math.inf)
    for some in (rewards, [sum(rewards) / 2]):  # what was seen is kept in mind
        stats.update(torch.tensor(some), torch.ones(len(some)))
        assert stats.bounds(gamma) == bounds


def test_a_rare_reward_stays_possible() -> None:
    """It is many deviations away by now, however few it was when it was seen."""
    stats = RewardStats(1, standardize=True)
    stats.update(torch.tensor([0.0, 1.0]), torch.ones(2))
    assert stats.bounds(0.0) == (-1.0, 1.0)
    stats.update(torch.zeros(898), torch.ones(898))
    assert stats.bounds(0.0)[1] == stats.standardized(torch.tensor([1.0])) == pytest.approx(899**0.5)
