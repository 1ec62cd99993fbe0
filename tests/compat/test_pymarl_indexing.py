"""Brackets of an episode batch: episodes, times and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th

from pymarl_plain import ACTIONS, GROUPS, SCHEME
from refusals import refused
from relive.compat.pymarl import EpisodeBatch, OneHot

PREPROCESS = {"actions": ("actions_onehot", [OneHot(ACTIONS)])}


def new_batch(episodes: int = 3, steps: int = 6, **options: Any) -> EpisodeBatch:
    return EpisodeBatch(SCHEME, GROUPS, episodes, steps, preprocess=PREPROCESS, **options)


@pytest.mark.parametrize(
    "bs", [1, -1, slice(1, 3), [2, 0], np.array([1, 2]), th.tensor([0, 1]), th.tensor([0], dtype=th.int32)]
)
@pytest.mark.parametrize("ts", [2, -1, slice(1, 4), slice(None, None, 2)])
def test_update_writes_the_cells_that_its_index_means(bs: Any, ts: Any) -> None:
    batch = new_batch(3, 6)
    which = np.zeros((3, 6), bool)
    rows = np.arange(3)[bs if not isinstance(bs, th.Tensor) else bs.numpy()]
    cells = np.zeros(6, bool)
    cells[ts] = True
    which[np.ix_(np.isin(np.arange(3), rows), cells)] = True
    values = np.arange(which.sum() * 5, dtype=np.float32).reshape(np.size(rows), int(cells.sum()), 5)
    batch.update({"state": values}, bs, ts)
    expected = np.zeros((3, 6, 5), np.float32)
    for i, row in enumerate(np.atleast_1d(rows)):
        expected[row, cells] = values[i]
    np.testing.assert_array_equal(batch["state"].numpy(), expected)
    np.testing.assert_array_equal(batch["filled"][..., 0].numpy(), which)


def test_masks_mean_the_episodes_they_mark() -> None:
    batch = new_batch(3)
    batch.update({"reward": [[5.0], [6.0]]}, bs=np.array([True, False, True]), ts=0)
    assert batch["reward"][:, 0, 0].tolist() == [5, 0, 6]
    assert batch[th.tensor([False, True, True])]["reward"][:, 0, 0].tolist() == [0, 6]


def filled_batch() -> EpisodeBatch:
    batch = new_batch(3, 6)
    batch.update({"state": np.arange(90).reshape(3, 6, 5), "goal": np.arange(6).reshape(3, 2)})
    batch.update({"actions": np.arange(36).reshape(3, 6, 2, 1) % 4})
    return batch


@pytest.mark.parametrize(
    ("item", "rows", "cells", "shares"),
    [
        (0, [0], range(6), True),
        (-1, [2], range(6), True),
        (slice(1, 3), [1, 2], range(6), True),
        ((slice(None), 2), range(3), [2], True),
        ((slice(None), slice(None, 4)), range(3), range(4), True),
        ((slice(None), slice(None, th.tensor([4]))), range(3), range(4), True),
        ((slice(None), slice(None, th.tensor(4))), range(3), range(4), True),
        ((1, slice(2, 5)), [1], [2, 3, 4], True),
        ([2, 0], [2, 0], range(6), False),
        ((np.array([1]), slice(0, 2)), [1], [0, 1], False),
        (th.tensor([2, 1]), [2, 1], range(6), False),
        (th.tensor([-1, 0], dtype=th.int32), [2, 0], range(6), False),
        (np.array([True, False, True]), [0, 2], range(6), False),
        (th.tensor([False, True, False]), [1], range(6), False),
        (np.int64(1), [1], range(6), True),
        (th.tensor(2), [2], range(6), True),
        ([], [], range(6), False),
        ((), range(3), range(6), True),
        (np.arange(3)[::-1], [2, 1, 0], range(6), False),
        (np.array([1], ">i4"), [1], range(6), False),
    ],
)
def test_brackets_mean_episodes_and_times(item: Any, rows: Any, cells: Any, shares: bool) -> None:
    batch = filled_batch()
    part = batch[item]
    assert isinstance(part, EpisodeBatch)
    assert (part.batch_size, part.max_seq_length) == (len(rows), len(cells))
    np.testing.assert_array_equal(part["state"], batch["state"].numpy()[np.ix_(list(rows), list(cells))])
    np.testing.assert_array_equal(part["goal"], batch["goal"].numpy()[list(rows)])
    if len(rows):
        part.update({"actions": np.full((len(rows), len(cells), 2, 1), 3)})
        assert (part["actions_onehot"][..., 3] == 1).all()
        mine = batch["actions_onehot"].numpy()[np.ix_(list(rows), list(cells))]
        assert (mine[..., 3] == 1).all() == shares


def test_names_give_live_tensors_and_batches_that_share_memory() -> None:
    batch = filled_batch()
    live = batch["state"]
    batch.update({"state": np.full((3, 5), -1.0)}, ts=0)
    assert (live[:, 0] == -1).all()
    part = batch["state", "actions", "actions_onehot", "goal"]
    assert list(part.scheme) == ["state", "actions", "actions_onehot", "goal"]
    assert part.groups == {"agents": 2}
    part.update({"state": np.zeros((3, 6, 5)), "actions": np.ones((3, 6, 2, 1)), "goal": np.ones((3, 2))})
    assert not batch["state"].any()
    assert (batch["actions_onehot"][..., 1] == 1).all()
    assert (batch["goal"] == 1).all()
    alone = batch["state", "reward"]
    assert alone.groups == {}
    alone.update({"reward": np.ones((3, 1))}, ts=0)  # has no filled to mark
    for name in ("nothing", ("state", "nothing")):
        with refused(ValueError, "name", got="'nothing'"):
            batch[name]


@pytest.mark.parametrize(
    "item",
    [
        (slice(None), [0, 1]),
        (slice(None), th.tensor([0.5, 1])),
        (slice(None), np.array([0, 6])),
        (slice(None), 6),
        3,
        [0, 5],
        (0, 0, 0),
        slice(None, None, -1),
        slice(0.5, 2),
        th.tensor([0.5]),
        np.array([True, False]),
        None,
        ["a"],
        [[0], [1, 2]],
        object(),
    ],
)
def test_brackets_that_mean_nothing(item: Any) -> None:
    with pytest.raises(IndexError):
        filled_batch()[item]


def test_times_by_an_array() -> None:
    batch = new_batch(3, 6)
    for t in range(6):
        batch.update({"state": np.full((3, 5), t), "reward": np.full((3, 1), t)}, ts=t)
    for times in (np.array([0, 1]), th.tensor([1, 3, 4]), np.array([5, -6])):
        part = batch[:, times]
        assert part.max_seq_length == len(times)
        assert part["reward"][1, :, 0].tolist() == [int(t) % 6 for t in times]
    some = batch[[2, 0], np.array([4, 2])]
    assert some["reward"][..., 0].tolist() == [[4, 2], [4, 2]]
    batch.update({"reward": np.array([[[7.0], [8.0]], [[9.0], [10.0]]])}, bs=[0, 2], ts=np.array([1, 4]))
    assert batch["reward"][..., 0].tolist() == [[0, 7, 2, 3, 8, 5], [0, 1, 2, 3, 4, 5], [0, 9, 2, 3, 10, 5]]


def test_batches_of_names_are_in_the_order_asked_for() -> None:
    batch = new_batch(2, 3)
    part = batch["reward", "goal", "obs"]
    assert list(part.scheme) == ["reward", "goal", "obs"]
    assert list(part.data.transition_data) == ["reward", "obs"]
    assert list(part.data.episode_data) == ["goal"]
