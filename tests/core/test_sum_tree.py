"""The sum tree against plain sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from relive import _core

priorities = st.one_of(st.just(0.0), st.floats(1e-12, 1e6), st.sampled_from([1e-150, 1e150, 1.0]))


@given(st.integers(1, 700), st.data())
def test_total_least_and_count(leaves: int, data: st.DataObject) -> None:
    tree = _core.SumTree(leaves)
    plain = np.zeros(leaves)
    for _ in range(3):
        changes = data.draw(st.lists(st.tuples(st.integers(0, leaves - 1), priorities), max_size=20))
        tree.set([leaf for leaf, _ in changes], [value for _, value in changes])
        for leaf, value in changes:
            plain[leaf] = value
        assert tree.total() == pytest.approx(plain.sum(), rel=1e-12)
        assert tree.count() == np.count_nonzero(plain)
        assert tree.least() == (plain[plain > 0].min() if plain.any() else 0)


@given(st.integers(1, 700), st.data())
def test_what_is_found_has_a_priority(leaves: int, data: st.DataObject) -> None:
    """Whatever the priorities and wherever the draw falls, its very edges included."""
    tree = _core.SumTree(leaves)
    plain = np.zeros(leaves)
    for leaf, value in data.draw(st.lists(st.tuples(st.integers(0, leaves - 1), priorities), min_size=1, max_size=20)):
        tree.set([leaf], [value])
        plain[leaf] = value
    if not plain.any():
        return
    total = tree.total()
    inside = data.draw(st.lists(st.floats(0, 1, exclude_max=True), max_size=10))
    positions = [0.0, np.nextafter(total, 0), total, total * 2, *(total * part for part in inside)]
    positions = sorted(positions * data.draw(st.sampled_from([1, 20])))
    edges = np.concatenate([[0.0], np.cumsum(plain)])
    for ascending in (False, True):
        found = tree.find(positions, ascending)
        assert (plain[found] > 0).all()
        for position, leaf in zip(np.minimum(positions, total), found, strict=True):
            slack = 1e-9 * total
            assert edges[leaf] - slack <= position <= edges[leaf + 1] + slack


def test_draws_are_in_proportion() -> None:
    """Chi-square with a false alarm once in 10,000."""
    random = np.random.default_rng(7)
    weights = random.random(300) * (random.random(300) < 0.7)
    tree = _core.SumTree(300)
    tree.set(np.arange(300), weights)
    found = np.bincount(tree.find(random.random(200_000) * tree.total()), minlength=300)
    assert found[weights == 0].sum() == 0
    expected = weights[weights > 0] / weights.sum() * 200_000
    assert stats.chisquare(found[weights > 0], expected).pvalue > 1e-4


def test_no_drift() -> None:
    """A million updates leave no trace: nodes are summed again, not patched."""
    random = np.random.default_rng(3)
    tree = _core.SumTree(5000)
    plain = np.zeros(5000)
    for _ in range(1000):
        leaves, values = random.integers(0, 5000, 1000), random.random(1000) * 10.0 ** random.integers(-9, 9)
        tree.set(leaves, values)
        plain[leaves] = values
    tree.set(np.arange(4999), np.zeros(4999))
    assert tree.total() == plain[4999]


@pytest.mark.parametrize(("leaves", "values"), [([5], [1.0]), ([-1], [1.0])])
def test_leaves_outside_are_refused(leaves: list[int], values: list[float]) -> None:
    with pytest.raises(IndexError, match="leaf out of range"):
        _core.SumTree(5).set(leaves, values)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_priorities_outside_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="priority out of range"):
        _core.SumTree(5).set([0], [value])


@pytest.mark.parametrize("leaves", [0, -3, 2**60])
def test_impossible_sizes_are_refused(leaves: int) -> None:
    with pytest.raises(ValueError, match="leaves out of range"):
        _core.SumTree(leaves)
