"""EpisodeBatch: what its update takes, what its brackets mean."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch as th
from hypothesis import given, settings

import recollect as rc
from pymarl_plain import ACTIONS, GROUPS, SCHEME, blank_episode, check, one_hot, shape_of
from recollect.compat.pymarl import EpisodeBatch, OneHot, ReplayBuffer

PREPROCESS = {"actions": ("actions_onehot", [OneHot(ACTIONS)])}


def new_batch(episodes: int = 3, steps: int = 6, **options: Any) -> EpisodeBatch:
    return EpisodeBatch(SCHEME, GROUPS, episodes, steps, preprocess=PREPROCESS, **options)


def test_setup_has_the_documented_shapes_and_dtypes() -> None:
    scheme = copy.deepcopy(SCHEME)
    batch = EpisodeBatch(scheme, GROUPS, 3, 6, preprocess=PREPROCESS)
    assert scheme == SCHEME
    assert batch["state"].shape == (3, 6, 5)
    assert batch["obs"].shape == (3, 6, 2, 3)
    assert batch["actions_onehot"].shape == (3, 6, 2, 4)
    assert batch["goal"].shape == (3, 2)
    assert batch["kind"].shape == (3, 2, 1)
    assert batch["filled"].shape == (3, 6, 1)
    assert batch["filled"].dtype == th.int64
    assert batch.scheme["state"]["vshape"] == 5
    assert batch.scheme["actions_onehot"] == {"vshape": (4,), "dtype": th.float32, "group": "agents"}
    assert batch.scheme["filled"] == {"vshape": (1,), "dtype": th.long}
    assert all(not tensor.any() for tensor in batch.data.transition_data.values())
    assert set(batch.data.episode_data) == {"goal", "kind"}
    assert batch.device == "cpu"
    made = EpisodeBatch(SCHEME, GROUPS, 1, 2, preprocess={"kind": ("kind_onehot", [OneHot(3)])})
    assert made["kind_onehot"].shape == (1, 2, 3)


VALUES = {
    "nested lists": lambda array: array.tolist(),
    "lists of arrays": lambda array: [list(part) for part in array],
    "tuples": lambda array: tuple(tuple(part) for part in array),
    "an array": lambda array: array,
    "a wider array": lambda array: array.astype(np.float64),
    "a tensor": lambda array: th.tensor(array),
    "a list of tensors": lambda array: [th.tensor(part) for part in array],
}


@pytest.mark.parametrize("kind", VALUES)
def test_update_takes_every_kind_of_value(kind: str) -> None:
    batch = new_batch()
    random = np.random.default_rng(0)
    plain = [blank_episode(6) for _ in range(3)]
    for t in range(4):
        data = {
            "state": random.normal(size=(3, 5)).astype(np.float32),
            "obs": random.normal(size=(3, 2, 3)).astype(np.float32),
            "actions": random.integers(0, 4, (3, 2, 1)),
            "avail_actions": random.integers(0, 2, (3, 2, 4)),
            "reward": random.normal(size=(3, 1)).astype(np.float32),
            "terminated": random.integers(0, 2, (3, 1)),
        }
        batch.update({name: VALUES[kind](value) for name, value in data.items()}, ts=t)
        for episode in range(3):
            for name, value in data.items():
                plain[episode][name][t] = value[episode]
            plain[episode]["actions_onehot"][t] = one_hot(data["actions"][episode])
            plain[episode]["filled"][t] = 1
    check(batch, plain)


def test_update_takes_what_runners_pass() -> None:
    batch = new_batch(1)
    batch.update({"reward": [(0.5,)], "terminated": [(True,)]}, ts=0)
    assert (batch["reward"][0, 0, 0], batch["terminated"][0, 0, 0]) == (0.5, 1)
    batch.update({"actions": th.tensor([[1, 3]])}, ts=0, mark_filled=False)
    assert batch["actions"][0, 0].tolist() == [[1], [3]]
    assert batch["actions_onehot"][0, 0].tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]
    batch.update({"actions": th.tensor([2, 0])}, ts=1)
    assert batch["actions"][0, 1].tolist() == [[2], [0]]
    batch.update({"obs": [[np.ones(3), np.zeros(3)]], "avail_actions": [[[1, 0, 0, 1], [1, 1, 1, 1]]]}, ts=2)
    assert batch["obs"][0, 2].tolist() == [[1, 1, 1], [0, 0, 0]]
    batch = new_batch(4)
    batch.update({"reward": [(1.0,), (2.0,)]}, bs=[1, 3], ts=4, mark_filled=False)
    assert batch["reward"][:, 4, 0].tolist() == [0, 1, 0, 2]
    assert not batch["filled"].any()
    batch.update({"state": np.ones((2, 5))}, bs=th.tensor([0, 2]), ts=1)
    assert batch["filled"][:, 1, 0].tolist() == [1, 0, 1, 0]
    batch.update({"state": np.ones((4, 6, 5))})
    assert batch["filled"].all()
    batch.update({"goal": [[7.0, 8.0]]}, bs=2)
    assert batch["goal"].tolist() == [[0, 0], [0, 0], [7, 8], [0, 0]]


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


@given(st.lists(st.sampled_from([1, 1, 2, 3]), max_size=4), st.lists(st.sampled_from([1, 1, 2, 3]), max_size=4))
@settings(max_examples=300)
def test_a_value_fits_where_its_axes_can_be_walked(shape: list[int], place: list[int]) -> None:
    """Against the rule itself: from the last axis, each of the place is the value's next or 1; nothing is left over."""
    batch = EpisodeBatch({"x": {"vshape": (*place, 2)}}, {}, 1, 1)
    whole = (1, 1, *place, 2)
    rest = [*shape, 2]
    right = True
    for size in reversed(whole):
        if rest and rest[-1] == size:
            rest.pop()
        elif size != 1:
            right = False
            break
    right = right and all(size == 1 for size in rest)
    value = np.arange(int(np.prod([*shape, 2])), dtype=np.float32).reshape(*shape, 2)
    if right:
        batch.update({"x": value})
        np.testing.assert_array_equal(batch["x"].numpy().ravel(), value.ravel())
    else:
        with pytest.raises(ValueError, match="x must fit"):
            batch.update({"x": value})
        assert not batch["filled"].any()


def test_a_refused_update_changes_nothing() -> None:
    batch = new_batch()
    with pytest.raises(ValueError, match=r"^obs must fit \[3, 1, 2, 3\], got \[3, 3, 2\]"):
        batch.update({"state": np.ones((3, 5)), "obs": np.ones((3, 3, 2))}, ts=0)
    with pytest.raises(KeyError, match=r"name must be one of state, obs, .*, got 'speed'"):
        batch.update({"state": np.ones((3, 5)), "speed": np.ones(3)}, ts=0)
    with pytest.raises(ValueError, match=r"^a value to be made one-hot must be from 0 to 3, got 4"):
        batch.update({"state": np.ones((3, 5)), "actions": np.full((3, 2, 1), 4)}, ts=0)
    with pytest.raises(ValueError, match=r"^terminated must fit uint8, got 0 to 256"):
        batch.update({"terminated": np.array([[0], [256], [1]])}, ts=0)
    with pytest.raises(ValueError, match=r"^reward must be numbers that fit float32, got list"):
        batch.update({"reward": [["a"], ["b"], ["c"]]}, ts=0)
    for ts in (6, -7):
        with pytest.raises(IndexError, match=r"^a time must be from -6 to 5, got"):
            batch.update({"reward": [(1.0,)] * 3}, ts=ts)
    with pytest.raises(IndexError, match=r"^an episode must be from -3 to 2, got 3"):
        batch.update({"reward": [(1.0,)]}, bs=[3], ts=0)
    for tensor in (*batch.data.transition_data.values(), *batch.data.episode_data.values()):
        assert not tensor.any()


def test_values_that_stay_the_same_in_an_episode_never_mark_steps() -> None:
    batch = new_batch()
    batch.update({"goal": np.ones((3, 2))})
    assert not batch["filled"].any()
    batch.update({"goal": np.ones((3, 2)), "reward": np.ones((3, 1))}, ts=2)
    assert batch["filled"][:, :, 0].tolist() == [[0, 0, 1, 0, 0, 0]] * 3


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
        with pytest.raises(ValueError, match=r"^name must be one of state, obs, .*, got 'nothing'$"):
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


def test_max_t_filled_and_device_and_reprs_and_pickling() -> None:
    batch = new_batch()
    batch.update({"reward": [[1.0]]}, bs=1, ts=slice(0, 1))
    batch.update({"reward": np.ones((1, 4, 1))}, bs=2, ts=slice(0, 4))
    longest = batch.max_t_filled()
    assert (longest.dtype, longest.shape, longest.item()) == (th.int64, (1,), 4)
    assert batch[:, :longest].max_seq_length == 4
    assert repr(batch).startswith("EpisodeBatch. Batch Size:3 Max_seq_len:6 Keys:dict_keys(['state', 'obs'")
    assert repr(batch).endswith("Groups:dict_keys(['agents'])")
    again = pickle.loads(pickle.dumps(batch))
    again.update({"reward": [[9.0]]}, bs=0, ts=0)
    assert again["reward"][0, 0, 0] == 9
    assert batch["reward"][0, 0, 0] == 0
    batch.to("meta")
    assert batch.device == "meta"
    assert batch["state"].device.type == "meta"
    batch.update({"actions": np.zeros((3, 2, 1))}, ts=0)


def test_a_tensor_put_in_the_place_of_another_is_the_one_written_to() -> None:
    batch = new_batch(1)
    batch.update({"reward": [[1.0]]}, ts=0)
    batch.data.transition_data["reward"] = th.zeros(1, 6, 1)
    batch.update({"reward": [[2.0]]}, ts=1)
    assert batch["reward"][0, :, 0].tolist() == [0, 2, 0, 0, 0, 0]


def test_a_tensor_that_torch_moved_is_written_to_where_it_is_now() -> None:
    batch = new_batch(1)
    batch.update({"reward": [(1.0,)]}, ts=0)
    batch["reward"].share_memory_()
    batch.update({"reward": [(5.0,)]}, ts=1)
    assert batch["reward"][0, :2, 0].tolist() == [1, 5]


def test_odd_tensors_and_arrays_are_values_too() -> None:
    batch = new_batch(1)
    batch.update({"reward": th.ones(1, 1, dtype=th.bfloat16)}, ts=0)
    batch.update({"reward": th._neg_view(th.ones(1, 1))}, ts=1)
    read_only = np.full((1, 1), 3.0)
    read_only.flags.writeable = False
    batch.update({"reward": read_only, "actions": np.ones((1, 2, 1))[:, ::-1]}, ts=2)
    batch.update({"terminated": np.array([[np.nan]]), "reward": np.array([[1e300]])}, ts=3)
    assert batch["reward"][0, :4, 0].tolist() == [1, -1, 3, float("inf")]


def test_tensors_that_arrays_cannot_share_work_too() -> None:
    scheme = SCHEME | {"value": {"vshape": (1,), "dtype": th.bfloat16}}
    batch = EpisodeBatch(scheme, GROUPS, 2, 3, preprocess=PREPROCESS)
    for value in ([[1.5], [2.5]], [th.tensor([1.5]), th.tensor([2.5])], th.tensor([1.5, 2.5])):
        batch.update({"value": value}, bs=[0, 1], ts=1)
        assert batch["value"][:, 1, 0].tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="value must fit"):
        batch.update({"value": np.ones((2, 2))}, ts=0)


class Doubled:
    """A transform of someone else's."""

    def transform(self, tensor: Any) -> Any:
        return tensor.float() * 2

    def infer_output_info(self, vshape: Any, dtype: Any) -> Any:
        return vshape, th.float32


def test_any_transforms_are_applied_one_after_the_other() -> None:
    preprocess = {"actions": ("twice", [OneHot(ACTIONS), Doubled()]), "reward": ("more", [Doubled()])}
    batch = EpisodeBatch(SCHEME, GROUPS, 1, 2, preprocess=preprocess)
    assert batch.scheme["twice"] == {"vshape": (4,), "dtype": th.float32, "group": "agents"}
    batch.update({"actions": [[1, 3]], "reward": [(4.0,)]}, ts=1)
    assert batch["twice"][0, 1].tolist() == [[0, 2, 0, 0], [0, 0, 0, 2]]
    assert batch["more"][0, :, 0].tolist() == [0, 8]


def test_schemes_that_cannot_be() -> None:
    with pytest.raises(rc.errors.OptionError, match=r"^scheme must leave filled to the batch"):
        EpisodeBatch({"filled": {"vshape": (1,)}}, {}, 1, 1)
    with pytest.raises(rc.errors.OptionError, match=r"^groups must have the group of obs, 'agents', got none"):
        EpisodeBatch({"obs": {"vshape": 3, "group": "agents"}}, {}, 1, 1)
    with pytest.raises(rc.errors.OptionError, match=r"^preprocess must name values of the scheme \(x\), got 'y'"):
        EpisodeBatch({"x": {"vshape": 3}}, {}, 1, 1, preprocess={"y": ("z", [])})
    with pytest.raises(rc.errors.OptionError, match=r"^scheme\['x'\] must have a vshape"):
        EpisodeBatch({"x": {}}, {}, 1, 1)
    with pytest.raises(rc.errors.OptionError, match=r"^dtype must be a torch dtype"):
        EpisodeBatch({"x": {"vshape": 1, "dtype": float}}, {}, 1, 1)


def test_one_hot() -> None:
    numbers = th.tensor([[[0]], [[2]]])
    assert OneHot(3).transform(numbers).tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
    assert OneHot(3).infer_output_info((1,), th.long) == ((3,), th.float32)
    assert shape_of("obs") == (2, 3)
    pair = EpisodeBatch({"x": {"vshape": (2,), "dtype": th.long}}, {}, 1, 1, preprocess={"x": ("h", [OneHot(2)])})
    pair.update({"x": [[0, 1]]}, ts=0)
    assert pair["h"].tolist() == [[[1, 1]]]


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


class Fork(EpisodeBatch):
    """As forks do it: more values than the scheme has, and other tensors for them."""

    def _setup_data(
        self, scheme: Any, groups: Any, batch_size: int, max_seq_length: int, preprocess: Any = None
    ) -> None:
        super()._setup_data({**scheme, "hidden": {"vshape": (7,)}}, groups, batch_size, max_seq_length, preprocess)
        self.data.transition_data["hidden"] += 1

    def first(self) -> Any:
        episodes, times = self._parse_slices((slice(None), 0))
        data = self._new_data_sn()
        data.transition_data = {k: v[episodes, times] for k, v in self.data.transition_data.items()}
        self._check_safe_view(data.transition_data["state"], data.transition_data["state"])
        count = self._get_num_items(episodes, self.batch_size)
        return EpisodeBatch(self.scheme, self.groups, count, 1, data, device=self.device)


def test_forks_that_subclass() -> None:
    batch = Fork(SCHEME, GROUPS, 2, 4)
    assert batch["hidden"].tolist() == th.ones(2, 4, 7).tolist()
    batch.update({"state": np.ones((2, 5))}, ts=0)
    assert batch.first()["state"].shape == (2, 1, 5)
    with pytest.raises(ValueError, match=r"value must fit \[2, 3\], got \[4\]"):
        batch._check_safe_view(th.zeros(4), th.zeros(2, 3))
    batch.extend({"bonus": {"vshape": (2,)}, "role": {"vshape": (1,), "group": "teams"}}, {"teams": 3})
    batch.update({"bonus": np.ones((2, 2)), "role": np.ones((2, 3, 1))}, ts=1)
    assert batch["bonus"].sum() == 4
    assert batch["role"].shape == (2, 4, 3, 1)
    assert batch["filled"][:, :, 0].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]
    assert list(batch.scheme)[-2:] == ["bonus", "role"]


def test_errors_are_of_the_kinds_that_callers_catch() -> None:
    with pytest.raises(AssertionError, match="filled"):
        EpisodeBatch({"filled": {"vshape": 1}}, {}, 1, 1)
    with pytest.raises(AssertionError, match="vshape"):
        EpisodeBatch({"a": {}}, {}, 1, 1)
    with pytest.raises(AssertionError, match="groups"):
        EpisodeBatch({"a": {"vshape": 1, "group": "agents"}}, {}, 1, 1)
    with pytest.raises(AssertionError, match="preprocess"):
        EpisodeBatch({"a": {"vshape": 1}}, {}, 1, 1, preprocess={"b": ("c", [OneHot(2)])})
    batch = new_batch(1, 2)
    with pytest.raises(KeyError):
        batch.update({"nothing": 1})
    with pytest.raises(ValueError, match="nothing"):
        batch["nothing"]
    with pytest.raises(ValueError, match="must fit"):
        batch.update({"state": np.zeros(4)}, ts=0)
    buffer = ReplayBuffer(SCHEME, GROUPS, 4, 2)
    with pytest.raises(AssertionError, match="hold 1 episodes"):
        buffer.sample(1)
