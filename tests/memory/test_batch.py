"""Batches as objects, and their memory."""

from __future__ import annotations

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
