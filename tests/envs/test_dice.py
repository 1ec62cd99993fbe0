"""Random numbers for many environments at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import relive as rl
from refusals import refused
from relive.envs.dice import Dice, seeds, seeds_for

FALSE_ALARM = 1e-6


def test_splitmix64_values() -> None:
    """The stream is SplitMix64's: numbers from the published generator seeded with 1234567."""
    dice = Dice([0])
    dice.restore({**dice.snapshot(), "place": np.array([1234567])})
    drawn = dice.uniform(slice(None), 3)[:, 0]
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    np.testing.assert_array_equal(drawn, [(n >> 11) * 2.0**-53 for n in published])


def test_uniform_and_independent() -> None:
    for base in (0, 1, 12345):
        dice = Dice(seeds(base, 500))
        rows = np.arange(500)
        drawn = []
        for _ in range(10):
            dice.begin(rows)
            drawn.append(dice.uniform(rows, 20))
        values = np.stack(drawn)  # episode, place, environment
        assert stats.kstest(values.ravel(), "uniform").pvalue > FALSE_ALARM
        counts = np.bincount((values.ravel() * 64).astype(int), minlength=64)
        assert stats.chisquare(counts).pvalue > FALSE_ALARM
        low_bits = ((values.ravel() * 2**53).astype(np.uint64) & np.uint64(15)).astype(int)
        assert stats.chisquare(np.bincount(low_bits, minlength=16)).pvalue > FALSE_ALARM
        for one, two in (
            (values[:-1], values[1:]),  # episodes
            (values[:, :-1], values[:, 1:]),  # draws
            (values[:, :, :-1], values[:, :, 1:]),  # environments
        ):
            assert stats.pearsonr(one.ravel(), two.ravel()).pvalue > FALSE_ALARM
            pairs = np.bincount((one.ravel() * 8).astype(int) * 8 + (two.ravel() * 8).astype(int), minlength=64)
            assert stats.chisquare(pairs).pvalue > FALSE_ALARM


def test_neighbouring_seeds_share_nothing() -> None:
    assert len({one for base in range(200) for one in seeds(base, 64)}) > 200 * 64 - 5


def test_rows_do_not_disturb_each_other() -> None:
    all_rows, some = Dice(range(4)), Dice(range(4))
    every = np.arange(4)
    all_rows.begin(every), some.begin(every)
    first = all_rows.uniform(every, 3)
    some.uniform(np.array([1, 3]), 3)
    np.testing.assert_array_equal(some.uniform(np.array([0, 2]), 3), first[:, [0, 2]])
    np.testing.assert_array_equal(some.uniform(np.array([1]), 2), all_rows.uniform(np.array([1]), 2))


def test_draws_go_on_and_episodes_do_not_depend_on_how_far() -> None:
    one, two = Dice(range(5)), Dice(range(5))
    every = np.arange(5)
    one.begin(every), two.begin(every)
    first = one.uniform(every, 2)
    assert not np.isin(one.uniform(every, 2), first).any()
    one.begin(every), two.begin(every)
    np.testing.assert_array_equal(one.uniform(every, 4), two.uniform(every, 4))


def test_integers() -> None:
    dice = Dice(range(3000))
    drawn = dice.integers(slice(None), 4, 7)
    assert drawn.shape == (4, 3000)
    assert stats.chisquare(np.bincount(drawn.ravel(), minlength=7)).pvalue > FALSE_ALARM
    assert (drawn >= 0).all()
    assert (drawn < 7).all()


def test_without_a_seed_nothing_repeats() -> None:
    assert seeds(None, 3) != seeds(None, 3)


@pytest.mark.parametrize(
    "seed",
    [
        -1,
        2**63,
        True,
        1.5,
        [1],
        [1, -1],
        [1, 0.5],
    ],
)
def test_seeds_that_cannot_be(seed: Any) -> None:
    with refused(rl.errors.OptionError, "seed"):
        seeds_for(seed, 2)
