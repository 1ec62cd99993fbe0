"""Batches as objects, and their memory."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import relive as rl
from playing import SCHEMA, play


def test_a_released_batch_is_used_again_and_a_kept_one_is_not() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    play(memory, 5)
    address = memory.sample(8).obs.ctypes.data
    first = memory.sample(8)
    assert first.obs.ctypes.data == address
    kept, copy = first.obs, first.obs.copy()
    del first
    for _ in range(20):
        assert memory.sample(8).obs.ctypes.data != address
    np.testing.assert_array_equal(kept, copy)


def test_batches_behave_like_objects() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    play(memory, 4)
    batch = memory.sample(3)
    batch.error = np.ones(3)
    assert "error" in batch.copy()
    assert isinstance(batch.copy(), rl.Batch)
    with pytest.raises(AttributeError, match=r"^name must be one of obs, next_obs, .*, got 'nope'$"):
        _ = batch.nope
    assert repr(batch).startswith("Batch(obs: float32[3, 2], next_obs: float32[3, 2], action: uint8[3]")


@pytest.mark.parametrize(
    "window",
    [
        rl.Transition(),
        rl.NStep(3),
        rl.Sequence(2),
        rl.Sequence(2, across=True),
        rl.Episodes(),
        rl.Episodes(packed=True),
    ],
)
def test_size_is_the_number_of_samples_of_any_window(window: rl.Window) -> None:
    memory = rl.Memory(SCHEMA, 40, 2, window=window, seed=0)
    play(memory, 16)
    memory.cut()  # two whole episodes
    batch = memory.sample(3)
    assert batch.size == 3
    assert memory.read(batch.lanes, batch.serials).size == 3
    assert memory.inspect.newest(5).size == 5
    with pytest.raises(AttributeError):
        batch.size = 4  # type: ignore[misc]


def test_a_batch_knows_its_actions_also_as_a_copy() -> None:
    memory = rl.Memory(SCHEMA, 40, 2, seed=0)
    play(memory, 16)
    batch = memory.sample(3)
    for one in (batch, batch.copy(), copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert one.action_keys == {"action"}
        assert "action_keys" not in one
    assert memory.inspect.newest(5).action_keys == {"action"}
    assert not hasattr(rl.Batch(), "action_keys")
    assert rl.Batch().copy() == {}


@pytest.mark.parametrize("length", [None, 2])
def test_batches_of_rollouts_have_a_size_and_actions(length: int | None) -> None:
    rollout = rl.Rollout(rl.Schema(obs=rl.Field(), action=rl.Field((), "uint8")), length=4, lanes=2, seed=0)
    for t in range(4):
        rollout.append(obs=[t, t], action=[1, 2], reward=[0, 0], terminated=[False] * 2, truncated=[False] * 2)
    (batch,) = rollout.epochs(1, size=8, length=length)
    assert batch.size == (8 if length is None else 4)
    assert batch.action_keys == rollout.rows().action_keys == {"action"}
    assert rollout.rows().size == 8
    assert rollout.bootstrap(obs=[4, 4]).size == 2
