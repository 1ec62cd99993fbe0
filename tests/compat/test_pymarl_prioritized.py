"""PyMARL's prioritised replay."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from scipy import stats

import relive as rl
from pymarl_player import prioritised
from refusals import refused


def test_priorities_decide_draws_and_weights() -> None:
    buffer, episodes = prioritised()
    buffer.insert_episode_batch(episodes(0, 1, 2, 3))
    buffer.update_priorities([0, 1, 2, 3], th.tensor([1.0, -2.0, 4.0, 8.0]))
    counts = np.zeros(4)
    for _ in range(1000):
        batch, places, weights = buffer.sample(3, 0)
        assert batch["x"][:, 0, 0].tolist() == places
        np.testing.assert_allclose(weights, [(1 / [1, 2, 4, 8][place]) ** 0.5 for place in places], rtol=1e-6)
        np.add.at(counts, places, 1)
    assert stats.chisquare(counts, np.array([1, 2, 4, 8]) / 15 * 3000).pvalue > 1e-3
    assert buffer.sample(1, 50)[0].batch_size == 1
    assert buffer.beta == pytest.approx(0.75)
    buffer.sample(1, 1000)
    assert buffer.beta == 1.0
    assert (buffer.alpha, buffer.beta_original, buffer.beta_increment) == (1.0, 0.5, 0.005)
    buffer.insert_episode_batch(episodes(9))
    assert buffer.max_priority == 8.0
    assert buffer._powers.tolist()[0] == 8.0


def test_priorities_of_replaced_episodes_are_passed_over_and_bad_ones_refused() -> None:
    buffer, episodes = prioritised(2)
    buffer.insert_episode_batch(episodes(0, 1))
    _, places, _ = buffer.sample(2, 0)
    buffer.insert_episode_batch(episodes(2))
    buffer.update_priorities(places, [50.0, 50.0])
    assert buffer._powers[0] == 1.0
    assert buffer._powers[1] == pytest.approx(50.0)
    with refused(rl.errors.PriorityError, "priorities", got="nan for episode 1"):
        buffer.update_priorities([0, 1], [1.0, float("nan")])
    with refused(rl.errors.PriorityError, "priorities"):
        buffer.update_priorities([0, 1], [1.0])
    with refused(rl.errors.OptionError, "idxes", got="[2]"):
        buffer.update_priorities([2], [1.0])
    with refused(rl.errors.OptionError, "alpha", got="2.0"):
        prioritised(alpha=2.0)
    with refused(rl.errors.OptionError, "t_max", got="0"):
        prioritised(t_max=0)
