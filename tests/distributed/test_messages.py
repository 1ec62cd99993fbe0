"""Batches and priorities as bytes."""

import numpy as np
import pytest

import relive as rl
from relive.distributed.messages import Update, pack_batches, pack_updates, unpack_batches, unpack_updates


def test_batches_come_back_as_they_were() -> None:
    memory = rl.Memory(rl.Schema(obs={"camera": rl.Field((2, 3), "uint8"), "pose": rl.Field((5,))}), 100, seed=0)
    for number in range(30):
        obs = {"camera": np.full((2, 3), number), "pose": np.full(5, number)}
        memory.append(obs=obs, reward=number, terminated=number % 7 == 6, truncated=False)
    batches = [memory.sample(size) for size in (4, 4, 7)]
    head, found = unpack_batches(pack_batches({"epoch": 3}, batches))
    assert head["epoch"] == 3
    for one, other in zip(batches, found, strict=True):
        assert type(other) is rl.Batch
        np.testing.assert_array_equal(one.obs.camera, other.obs.camera)
        for key in ("reward", "weights", "lanes", "serials", "discount", "terminated"):
            np.testing.assert_array_equal(one[key], other[key])
            assert other[key].dtype == one[key].dtype
            assert other[key].flags.writeable
        assert other.next_obs.pose.ctypes.data % 64 == 0


def test_batches_of_two_messages_are_not_of_the_same_memory() -> None:
    """What is handed out again is what nobody holds."""
    memory = rl.Memory(rl.Schema(obs=rl.Field((5,))), 100, seed=0)
    held = []
    for number in range(1, 21):
        memory.append(obs=np.full(5, number), reward=number, terminated=True, truncated=False, final_obs=np.zeros(5))
        message = pack_batches({}, [memory.sample(8)])
        held.append((unpack_batches(message)[1][0], unpack_batches(message)[1][0].reward.tolist()))
        for batch, rewards in held:
            assert batch.reward.tolist() == rewards
            np.testing.assert_array_equal(batch.obs[:, 0], rewards)
        if number % 5 == 0:
            del held[::2]


def test_updates_come_back_as_they_were() -> None:
    updates = [Update(1, 2, np.arange(3.0)), Update(2**62, 5, np.zeros(0)), Update(4, 6, np.ones(1))]
    found = list(unpack_updates(pack_updates(updates)))
    assert [(update.epoch, update.draw, update.errors.tolist()) for update in found] == [
        (1, 2, [0, 1, 2]),
        (2**62, 5, []),
        (4, 6, [1]),
    ]
    with pytest.raises(ValueError, match="cut off"):
        list(unpack_updates(pack_updates(updates)[:-2]))
