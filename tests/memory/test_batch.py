"""Batches as objects, and their memory."""

from __future__ import annotations

import numpy as np
import pytest

import recollect as rc

SCHEMA = rc.Schema(obs=rc.Field((2,)), action=rc.Field((), "uint8"))


def play(memory: rc.Memory, steps: int, every: int = 0, start: int = 0) -> None:
    """Steps of all lanes; obs is [time, lane]; an episode ends after every so many."""
    lanes = memory.lanes
    for t in range(start, start + steps):
        ends = np.full(lanes, every > 0 and (t + 1) % every == 0)
        memory.append(
            obs=np.stack([np.full(lanes, t), np.arange(lanes)], 1),
            action=np.full(lanes, t % 256),
            reward=np.full(lanes, 1.0),
            terminated=ends,
            truncated=np.zeros(lanes, bool),
            final_obs=np.full((lanes, 2), 1000 + t),
        )


def test_a_released_batch_is_used_again_and_a_kept_one_is_not() -> None:
    memory = rc.Memory(SCHEMA, 20, 2, seed=0)
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
    memory = rc.Memory(SCHEMA, 20, 2, seed=0)
    play(memory, 4)
    batch = memory.sample(3)
    batch.error = np.ones(3)
    assert "error" in batch.copy()
    assert isinstance(batch.copy(), rc.Batch)
    with pytest.raises(AttributeError, match=r"^name must be one of obs, next_obs, .*, got 'nope'$"):
        _ = batch.nope
    assert repr(batch).startswith("Batch(obs: float32[3, 2], next_obs: float32[3, 2], action: uint8[3]")
