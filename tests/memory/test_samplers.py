"""Frequencies by chi-square with a fixed seed; a false alarm once in 10,000."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import relive as rl
from refusals import refused
from relive.errors import NotEnoughRows, OptionError, PriorityError

ALARM = 1e-4


def filled(episodes: list[list[int]], *, span: int = 64, **options: Any) -> rl.Memory:
    """Lanes with ended episodes of given lengths; obs counts steps over all lanes."""
    memory = rl.Memory(rl.Schema(obs=rl.Field()), span * len(episodes), len(episodes), seed=5, **options)
    count = 0
    for lane, lengths in enumerate(episodes):
        for length in lengths:
            for t in range(length):
                memory.append(
                    lanes=lane, obs=count, reward=1.0, terminated=t == length - 1, truncated=False, final_obs=-1
                )
                count += 1
    return memory


def counts(memory: rl.Memory, draws: int, size: int = 100, **options: Any) -> Any:
    found = [memory.sample(size, **options).obs.reshape(size, -1)[:, 0] for _ in range(draws // size)]
    return np.bincount(np.concatenate(found).astype(int))


UNEVEN = [[1, 1, 1, 9], [30], [2, 5]]


@pytest.mark.parametrize("replace", [True, False])
def test_uniform_over_rows_of_uneven_lanes(replace: bool) -> None:
    """Closing rows, short episodes and lanes of different lengths do not matter."""
    memory = filled(UNEVEN, sampler=rl.Uniform(replace=replace))
    size = 100 if replace else 20
    found = counts(memory, 100_000, size)
    assert len(found) == memory.ready == 49
    # Without replacement counts vary less than independent draws would, so the test is only stricter.
    assert stats.chisquare(found).pvalue > ALARM


def test_uniform_over_episodes() -> None:
    memory = filled(UNEVEN, window=rl.Episodes())
    found = counts(memory, 100_000)
    assert np.count_nonzero(found) == memory.ready == 7
    assert stats.chisquare(found[found > 0]).pvalue > ALARM


def test_uniform_over_the_grid_of_overlapping_sequences() -> None:
    memory = filled(UNEVEN, window=rl.Sequence(4, overlap=1))
    found = counts(memory, 100_000)
    assert np.count_nonzero(found) == memory.ready == 3 + 3 + 10 + 1 + 2
    assert stats.chisquare(found[found > 0]).pvalue > ALARM


@pytest.mark.parametrize("stratified", [True, False])
@pytest.mark.parametrize("window", [rl.Transition(), rl.Episodes()])
def test_prioritized_in_proportion(stratified: bool, window: Any) -> None:
    memory = filled(UNEVEN, window=window, sampler=rl.Prioritized(0.7, 0.5, eps=1e-300, stratified=stratified))
    batch = memory.sample(4 * memory.ready)
    errors = 1.0 + batch.serials % 5 + batch.lanes
    memory.update_priorities(batch, errors)
    chances = np.zeros(49)
    everything = memory.priorities
    total = everything.sum()
    for lane, serial in zip(*np.nonzero(everything), strict=True):
        row = memory.read([lane], [serial])
        chances[int(row.obs.ravel()[0])] = everything[lane, serial] / total
    found = np.pad(seen := counts(memory, 100_000), (0, 49 - len(seen)))
    assert found[chances == 0].sum() == 0
    assert stats.chisquare(found[chances > 0], chances[chances > 0] * found.sum()).pvalue > ALARM


def test_weights_of_the_seed_example() -> None:
    """Priorities 1, 2, 4, 8 at beta .5: 1, .707, .5, .354 over the largest."""
    memory = filled([[4]], sampler=rl.Prioritized(alpha=1.0, beta=0.5, eps=1e-300))
    memory.update_priorities({"lanes": [0, 0, 0, 0], "serials": [0, 1, 2, 3]}, [1.0, 2.0, 4.0, 8.0])
    batch = memory.sample(400)
    by_row = dict(zip(batch.obs.astype(int).tolist(), batch.weights.tolist(), strict=True))
    assert [round(by_row[row], 3) for row in range(4)] == [1.0, 0.707, 0.5, 0.354]
    halves = memory.sample(400, beta=1.0)
    assert min(halves.weights) == pytest.approx(0.125)


def test_beta_may_follow_a_schedule() -> None:
    memory = filled([[4]], sampler=rl.Prioritized(alpha=1.0, beta=rl.LinearSchedule(0.0, 1.0, steps=2), eps=1e-300))
    memory.update_priorities({"lanes": [0] * 4, "serials": [0, 1, 2, 3]}, [1.0, 4.0, 4.0, 4.0])
    least = [min(memory.sample(100).weights) for _ in range(4)]
    assert least == pytest.approx([1.0, 0.5, 0.25, 0.25])


def test_new_rows_enter_with_the_largest_priority_so_far() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 8, sampler=rl.Prioritized(1.0, eps=1e-300), seed=0)
    row = {"obs": 0.0, "reward": 0.0, "terminated": True, "truncated": False}
    memory.append(**row)
    assert memory.priorities.sum() == 1
    memory.update_priorities({"lanes": [0], "serials": [0]}, [5.0])
    memory.update_priorities({"lanes": [0], "serials": [0]}, [3.0])
    memory.append(**row)
    assert memory.priorities[0].tolist() == [3, 0, 5, 0, 0, 0, 0, 0]


def test_the_last_of_equal_rows_wins() -> None:
    memory = filled([[2]], sampler=rl.Prioritized(1.0, eps=1e-300))
    assert memory.update_priorities({"lanes": [0, 0, 0], "serials": [0, 0, 0]}, [9.0, 4.0, 2.0]) == 0
    assert memory.priorities[0, 0] == 2


def test_priorities_of_overwritten_rows_are_dropped_and_counted() -> None:
    memory = filled([[9]], span=12, sampler=rl.Prioritized(1.0, eps=1e-300))
    batch = memory.sample(64)
    for _ in range(4):
        memory.append(lanes=0, obs=0, reward=0.0, terminated=True, truncated=False)
    gone = int((batch.serials < 18 - 12).sum())
    before = memory.priorities.copy()
    assert memory.update_priorities(batch, np.full(64, 7.0)) == gone == memory.dropped
    changed = np.flatnonzero(before[0] != memory.priorities[0])
    assert set(changed) <= {serial % 12 for serial in range(6, 9)}


@pytest.mark.parametrize(
    "errors",
    [
        [1.0, np.nan],
        [np.inf, 1.0],
        [1.0],
        [[1.0], [2.0]],
        ["a", "b"],
    ],
)
def test_bad_priorities_change_nothing(errors: Any) -> None:
    memory = filled([[4]], sampler=rl.Prioritized())
    before = memory.priorities.copy()
    with refused(PriorityError, "errors"):
        memory.update_priorities({"lanes": [0, 0], "serials": [0, 1]}, errors)
    np.testing.assert_array_equal(memory.priorities, before)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_priorities_of_any_number_type(dtype: str) -> None:
    memory = filled([[2]], sampler=rl.Prioritized(1.0, eps=1e-300))
    memory.update_priorities({"lanes": [0, 0], "serials": [0, 1]}, np.ones(2, dtype))
    assert memory.priorities.sum() == 2


def test_only_prioritized_memories_take_priorities() -> None:
    memory = filled([[4]])
    for use in (lambda: memory.update_priorities(memory.sample(2), [1.0, 1.0]), lambda: memory.priorities):
        with refused(OptionError, "sampler", got="Uniform"):
            use()


@pytest.mark.parametrize("sampler", [rl.Shuffled(), rl.Prioritized()])
def test_an_epoch_has_every_row_once(sampler: Any) -> None:
    memory = filled(UNEVEN, sampler=sampler)
    orders = []
    for _ in range(2):
        batches = [batch.obs.astype(int) for batch in memory.epoch(8)]
        assert [len(batch) for batch in batches] == [8] * 6 + [1]
        orders.append(np.concatenate(batches).tolist())
        assert sorted(orders[-1]) == list(range(49))
    assert orders[0] != orders[1]


def test_epochs_do_not_disturb_each_other() -> None:
    memory = filled([[10]])
    seen = [(int(a.obs[0]), len([*memory.epoch(3)])) for a in memory.epoch(1)]
    assert sorted(row for row, _ in seen) == list(range(10))
    assert {inner for _, inner in seen} == {4}
    for _ in memory.epoch(1):  # rows that come meanwhile are not part of it
        memory.append(lanes=0, obs=0, reward=0.0, terminated=True, truncated=False)


def test_shuffles_are_fair() -> None:
    """Each of the 24 orders of four rows equally often."""
    memory = filled([[4]], sampler=rl.Shuffled())
    orders: dict[tuple[int, ...], int] = {}
    for _ in range(12_000):
        order = tuple(memory.sample(4).obs.astype(int).tolist())
        orders[order] = orders.get(order, 0) + 1
    assert len(orders) == 24
    assert stats.chisquare(list(orders.values())).pvalue > ALARM


def test_recent_rows_oldest_first() -> None:
    memory = filled([[3], [3]], sampler=rl.Recent())
    assert memory.sample(4).obs.astype(int).tolist() == [1, 4, 2, 5]


def test_same_seed_same_batches() -> None:
    one, two = (filled(UNEVEN, sampler=rl.Prioritized()) for _ in range(2))
    for _ in range(5):
        np.testing.assert_array_equal(one.sample(32).serials, two.sample(32).serials)
    state = one.random_state
    later = one.sample(32)
    one.random_state = state
    np.testing.assert_array_equal(one.sample(32).serials, later.serials)
    with refused(OptionError, "key0", got="-1"):
        one.random_state = state | {"key0": -1}
    one.random_state = state
    np.testing.assert_array_equal(one.sample(32).serials, later.serials)


def test_draws_are_the_same_on_every_platform() -> None:
    memory = filled(UNEVEN)
    assert memory.sample(12).obs.astype(int).tolist() == [43, 45, 19, 6, 26, 27, 12, 40, 34, 43, 8, 5]


def test_nothing_to_draw() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 8, seed=0)
    with refused(NotEnoughRows, "memory", got="0 steps and none complete"):
        memory.sample(1)
    memory.append(obs=1, reward=0.0, terminated=False, truncated=False)
    with refused(NotEnoughRows, "memory", got="1 steps and none complete"):
        memory.sample(1)


@pytest.mark.parametrize("sampler", [rl.Uniform(replace=False), rl.Recent()])
def test_too_few_to_draw_without_replacement(sampler: Any) -> None:
    memory = filled([[4]], sampler=sampler)
    memory.sample(4)
    before = memory.random_state
    with refused(NotEnoughRows, "size", got="5"):
        memory.sample(5)
    assert memory.random_state == before


@pytest.mark.parametrize(
    ("make", "about"),
    [
        (lambda: rl.Prioritized(alpha=-0.1), "alpha"),
        (lambda: rl.Prioritized(beta=-1.0), "beta"),
        (
            lambda: rl.Prioritized(eps=0),
            "eps",
        ),
        (lambda: rl.Prioritized(eps=float("nan")), "eps"),
        (lambda: rl.Prioritized(alpha=None), "alpha"),
        (lambda: rl.Prioritized(beta=10**400), "beta"),
        (lambda: rl.Prioritized(beta=10**5000), "beta"),
        (lambda: rl.LinearSchedule(0.0, 1.0, steps=0), "steps"),
        (lambda: rl.LinearSchedule(None, 1.0, steps=2), "start"),
        (lambda: filled([[2]]).sample(2, beta=float("inf")), "beta"),
        (lambda: filled([[2]]).sample(0), "size"),
        (lambda: filled([[2]]).sample(2.5), "size"),
        (lambda: filled([[2]]).sample(True), "size"),
    ],
)
def test_bad_settings(make: Any, about: str) -> None:
    with refused(OptionError, about):
        make()


@pytest.mark.parametrize(
    ("batch", "errors", "about"),
    [
        ({}, [1.0], "batch"),
        (3, [1.0], "batch"),
        ({"lanes": [0], "serials": [0, 1]}, [1.0, 1.0], "batch"),
        ({"lanes": [0.5], "serials": [0]}, [1.0], "batch.lanes"),
        ({"lanes": [[0]], "serials": [[0]]}, [1.0], "batch.lanes"),
        ({"lanes": [0, 0], "serials": [0, 1]}, [1.0], "errors"),
        ({"lanes": [0], "serials": [0]}, "x", "errors"),
    ],
)
def test_odd_rows_and_errors(batch: Any, errors: Any, about: str) -> None:
    memory = filled([[4]], sampler=rl.Prioritized())
    before = memory.priorities
    with refused(rl.errors.PriorityError, about):
        memory.update_priorities(batch, errors)
    np.testing.assert_array_equal(memory.priorities, before)


def test_errors_of_a_wider_type() -> None:
    memory = filled([[4]], sampler=rl.Prioritized(alpha=1.0, eps=1e-9))
    batch = memory.read([0, 0], [0, 1])
    assert memory.update_priorities(batch, np.array([3, 5], np.longdouble)) == 0
    np.testing.assert_allclose(memory.priorities[0, :2], [3, 5], rtol=1e-6)
    with refused(rl.errors.PriorityError, "errors"):
        memory.update_priorities(batch, np.array([1, np.finfo(np.longdouble).max]))
    np.testing.assert_allclose(memory.priorities[0, :2], [3, 5], rtol=1e-6)


@pytest.mark.parametrize("state", [{}, 3, {"key0": 1, "key1": 2, "position": 3}])
def test_a_random_state_that_is_none(state: Any) -> None:
    memory = filled([[4]])
    before = memory.random_state
    with refused(OptionError, "random_state"):
        memory.random_state = state
    assert memory.random_state == before
