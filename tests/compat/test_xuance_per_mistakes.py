"""XuanCe's prioritised replay of one agent: mistakes that are not repeated here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import relive as rl
from refusals import refused
from xuance_single_world import per


def test_per_weights_are_n_p_to_the_minus_beta_over_the_largest() -> None:
    buffer = per()
    buffer.update_priorities(np.arange(4), np.array([1.0, 2.0, 4.0, 8.0]))
    weights, steps = buffer.sample(0.5)[5:]
    for step, weight in zip(steps.ravel(), weights.ravel(), strict=True):
        assert weight == pytest.approx([1, 0.7071, 0.5, 0.3536][step], abs=1e-4)


def test_per_reads_and_updates_rows_past_255() -> None:
    buffer = per(1, 1000, 512, steps=1000)
    steps = buffer.sample(1.0)[6]
    assert steps.dtype == np.int64
    assert steps.max() > 255
    buffer.update_priorities(np.array([999]), np.array([1e6]))
    assert (buffer.sample(1.0)[6] == 999).mean() > 0.9


def test_per_draws_the_newest_row_and_one_row_is_enough() -> None:
    buffer = per(1, 4, 64, steps=1)
    assert (buffer.sample(1.0)[6] == 0).all()
    buffer = per(1, 4, 4000, steps=3)
    counts = np.bincount(buffer.sample(1.0)[6].ravel(), minlength=3)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("n_envs", "batch_size"), [(4, 10), (4, 2), (3, 1), (2, 6)])
def test_per_gives_exactly_batch_size_rows(n_envs: int, batch_size: int) -> None:
    buffer = per(n_envs, 4, batch_size)
    samples = buffer.sample(0.4)
    assert len(samples[0]) == batch_size
    assert samples[5].size == samples[6].size == batch_size
    buffer.update_priorities(samples[6], np.ones(batch_size))


def test_per_is_one_tree_and_one_normalisation_over_all_environments() -> None:
    buffer = per(2, 4, 8000)
    buffer.update_priorities(np.arange(8), np.array([1.0, 1, 1, 1, 3, 3, 3, 3]))
    weights, steps = (part.ravel() for part in buffer.sample(1.0)[5:])
    counts = np.bincount(steps, minlength=8)
    assert stats.chisquare(counts, np.array([1, 1, 1, 1, 3, 3, 3, 3]) / 16 * 8000).pvalue > 1e-3
    np.testing.assert_allclose(weights, np.where(steps < 4, 1.0, 1 / 3), rtol=1e-6)


def test_per_clear_leaves_a_buffer_that_works() -> None:
    buffer = per()
    buffer.update_priorities(np.arange(4), np.array([1.0, 2.0, 4.0, 8.0]))
    buffer.clear()
    assert (buffer.ptr, buffer.size) == (0, 0)
    obs = np.ones((1, 3), np.float32)
    buffer.store(obs, np.zeros(1, int), np.ones(1, np.float32), np.zeros(1, bool), obs)
    assert (buffer.sample(1.0)[6] == 0).all()


def test_per_takes_negative_errors_and_names_the_row_of_bad_ones() -> None:
    buffer = per()
    buffer.update_priorities(np.arange(4), np.array([-1.0, 2.0, -4.0, 0.0]))
    assert np.isfinite(buffer.sample(0.5)[5]).all()
    before = buffer.sample(0.5)[5]
    with refused(rl.errors.PriorityError, "priorities"):
        buffer.update_priorities(np.arange(4), np.array([9.0, 9.0, np.nan, 9.0]))
    with refused(rl.errors.PriorityError, "priorities"):
        buffer.update_priorities(np.arange(1), np.array([np.inf]))
    assert buffer.sample(0.5)[5].max() == before.max()
    with refused(rl.errors.PriorityError, "priorities", got="float64[3]"):
        buffer.update_priorities(np.arange(4), np.ones(3))


def test_per_passes_over_steps_that_were_overwritten_since() -> None:
    buffer = per(1, 4, 64)
    steps = buffer.sample(1.0)[6]
    obs = np.zeros((1, 3), np.float32)
    buffer.store(obs, np.zeros(1, int), np.ones(1, np.float32), np.zeros(1, bool), obs)  # in place of step 0
    buffer.update_priorities(steps, np.full(steps.shape, 50.0))
    assert buffer._slots.memory.priorities[0].tolist() == [1.0, *[pytest.approx(50.0)] * 3]
    buffer.update_priorities([0], [7.0])  # by hand, it means what is there now
    assert buffer._slots.memory.priorities[0, 0] == pytest.approx(7.0)


def test_per_sample_proportional_keeps_to_its_environment() -> None:
    buffer = per(2, 4, 8)
    buffer.update_priorities(np.arange(8), np.array([1.0, 1, 1, 1, 1, 1, 1, 5]))
    counts = np.bincount(buffer._sample_proportional(1, 8000), minlength=4)
    assert stats.chisquare(counts, np.array([1, 1, 1, 5]) * 1000).pvalue > 1e-3
    assert buffer._sample_proportional(0, 3) != buffer._sample_proportional(0, 3)


def test_priorities_of_a_cleared_buffer_go_nowhere() -> None:
    buffer = per()
    steps = buffer.sample(1.0)[6]
    buffer.clear()
    with refused(rl.errors.OptionError, "idxes"):
        buffer.update_priorities(steps, np.ones(steps.shape))
