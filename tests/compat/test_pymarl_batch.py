"""EpisodeBatch: what its update takes, what its brackets mean."""

from __future__ import annotations

import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch as th
from hypothesis import given, settings

from pymarl_plain import ACTIONS, GROUPS, SCHEME, blank_episode, check, one_hot
from refusals import refused
from relive.compat.pymarl import EpisodeBatch, OneHot, ReplayBuffer

PREPROCESS = {"actions": ("actions_onehot", [OneHot(ACTIONS)])}


def new_batch(episodes: int = 3, steps: int = 6, **options: Any) -> EpisodeBatch:
    return EpisodeBatch(SCHEME, GROUPS, episodes, steps, preprocess=PREPROCESS, **options)


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
        with refused(ValueError, "x"):
            batch.update({"x": value})
        assert not batch["filled"].any()


def test_a_refused_update_changes_nothing() -> None:
    batch = new_batch()
    with refused(ValueError, "obs"):
        batch.update({"state": np.ones((3, 5)), "obs": np.ones((3, 3, 2))}, ts=0)
    with refused(KeyError, "name", got="'speed'"):
        batch.update({"state": np.ones((3, 5)), "speed": np.ones(3)}, ts=0)
    with refused(ValueError, "value", got="4"):
        batch.update({"state": np.ones((3, 5)), "actions": np.full((3, 2, 1), 4)}, ts=0)
    with refused(ValueError, "terminated", got="0 to 256"):
        batch.update({"terminated": np.array([[0], [256], [1]])}, ts=0)
    with refused(ValueError, "reward", got="list"):
        batch.update({"reward": [["a"], ["b"], ["c"]]}, ts=0)
    for ts in (6, -7):
        with refused(IndexError, "a time", got=str(ts)):
            batch.update({"reward": [(1.0,)] * 3}, ts=ts)
    with refused(IndexError, "an episode", got="3"):
        batch.update({"reward": [(1.0,)]}, bs=[3], ts=0)
    for tensor in (*batch.data.transition_data.values(), *batch.data.episode_data.values()):
        assert not tensor.any()


def test_values_that_stay_the_same_in_an_episode_never_mark_steps() -> None:
    batch = new_batch()
    batch.update({"goal": np.ones((3, 2))})
    assert not batch["filled"].any()
    batch.update({"goal": np.ones((3, 2)), "reward": np.ones((3, 1))}, ts=2)
    assert batch["filled"][:, :, 0].tolist() == [[0, 0, 1, 0, 0, 0]] * 3


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
    with refused(ValueError, "value"):
        batch.update({"value": np.ones((2, 2))}, ts=0)


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
    with refused(ValueError, "value", got="[4]"):
        batch._check_safe_view(th.zeros(4), th.zeros(2, 3))
    batch.extend({"bonus": {"vshape": (2,)}, "role": {"vshape": (1,), "group": "teams"}}, {"teams": 3})
    batch.update({"bonus": np.ones((2, 2)), "role": np.ones((2, 3, 1))}, ts=1)
    assert batch["bonus"].sum() == 4
    assert batch["role"].shape == (2, 4, 3, 1)
    assert batch["filled"][:, :, 0].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]
    assert list(batch.scheme)[-2:] == ["bonus", "role"]


def test_errors_are_of_the_kinds_that_callers_catch() -> None:
    with refused(AssertionError, "scheme"):
        EpisodeBatch({"filled": {"vshape": 1}}, {}, 1, 1)
    with refused(AssertionError, "scheme['a']"):
        EpisodeBatch({"a": {}}, {}, 1, 1)
    with refused(AssertionError, "groups"):
        EpisodeBatch({"a": {"vshape": 1, "group": "agents"}}, {}, 1, 1)
    with refused(AssertionError, "preprocess"):
        EpisodeBatch({"a": {"vshape": 1}}, {}, 1, 1, preprocess={"b": ("c", [OneHot(2)])})
    batch = new_batch(1, 2)
    with pytest.raises(KeyError):
        batch.update({"nothing": 1})
    with refused(ValueError, "name", got="'nothing'"):
        batch["nothing"]
    with refused(ValueError, "state"):
        batch.update({"state": np.zeros(4)}, ts=0)
    buffer = ReplayBuffer(SCHEME, GROUPS, 4, 2)
    with refused(AssertionError, "buffer"):
        buffer.sample(1)
