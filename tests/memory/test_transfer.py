"""Batches drawn straight into bytes are those that would have been drawn one after the other."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused
from relive.errors import NotEnoughRows, OptionError
from relive.memory.batch import flat

SCHEMA = rl.Schema(obs={"a": rl.Field((3,)), "b": rl.Field((2, 2), "uint8")}, tag=rl.Field((), "int64"))
WINDOWS = (rl.Transition(), rl.NStep(3, gamma=0.9), rl.Sequence(5, burn_in=2), rl.Episodes(9))
SAMPLERS = (rl.Uniform(), rl.Uniform(replace=False), rl.Prioritized(0.6, beta=0.4), rl.Recent())


def filled(window: rl.Window = WINDOWS[0], sampler: rl.Sampler = SAMPLERS[0], steps: int = 60) -> rl.Memory:
    memory = rl.Memory(SCHEMA, 400, 2, window=window, sampler=sampler, seed=3)
    for number in range(steps):
        tags = np.array([number, 1000 + number])
        seen = {"a": np.repeat(tags[:, None], 3, 1), "b": np.zeros((2, 2, 2), np.uint8) + tags[:, None, None] % 251}
        end = np.full(2, number % 7 == 6)
        memory.append(obs=seen, tag=tags, reward=tags, terminated=end, truncated=[False] * 2, final_obs=seen)
    return memory


@settings(deadline=None, max_examples=60)
@given(
    window=st.sampled_from(WINDOWS),
    sampler=st.sampled_from(SAMPLERS),
    size=st.integers(1, 8),
    count=st.integers(1, 5),
    head=st.integers(0, 4),
    first=st.sampled_from([0, 1, 70]),
)
def test_bytes_are_the_batches(window, sampler, size: int, count: int, head: int, first: int) -> None:
    one, other = filled(window, sampler), filled(window, sampler)
    begin = bytes(range(16)) * head
    data = one.transfer.sample_bytes(size, count, head=begin, first_lane=first)
    assert data[: len(begin)] == begin
    at = len(begin)
    for _ in range(count):
        batch = other.sample(size)
        batch.lanes += first
        for _, array in flat(batch):
            np.testing.assert_array_equal(np.frombuffer(data, array.dtype, array.size, at), array.ravel())
            end = at + array.nbytes
            at = -(-(end - len(begin)) // 64) * 64 + len(begin)
            assert not any(data[end:at])
    assert at == len(data)
    np.testing.assert_array_equal(one.sample(size).serials, other.sample(size).serials)  # both go on alike


def test_what_cannot_be_drawn_is_refused_and_changes_nothing() -> None:
    memory, other = filled(), filled()
    with refused(OptionError, "head"):
        memory.transfer.sample_bytes(4, 2, head=b"abc")
    with refused(OptionError, "count"):
        memory.transfer.sample_bytes(4, 0)
    with refused(OptionError, "size"):
        memory.transfer.sample_bytes(0, 1)
    np.testing.assert_array_equal(memory.sample(8).serials, other.sample(8).serials)
    for window, sampler in ((rl.Episodes(), rl.Uniform()), (rl.Transition(), rl.Shuffled())):
        with refused(OptionError, "window"):
            filled(window, sampler).transfer.sample_bytes(4, 2)
    with pytest.raises(NotEnoughRows):
        rl.Memory(SCHEMA, 400, 2).transfer.sample_bytes(4, 2)
    with pytest.raises(NotEnoughRows):
        filled(sampler=rl.Uniform(replace=False), steps=4).transfer.sample_bytes(64, 2)


def test_bytes_are_whole_while_others_write() -> None:
    memory, stop = filled(rl.Transition()), threading.Event()

    def write() -> None:
        number = 60
        while not stop.is_set():
            tags = np.array([number, number]) % 200
            seen = {"a": np.repeat(tags[:, None], 3, 1), "b": np.zeros((2, 2, 2), np.uint8) + tags[:, None, None]}
            memory.append(obs=seen, tag=tags, reward=tags, terminated=[False] * 2, truncated=[False] * 2)
            number += 1

    threads = [threading.Thread(target=write)]
    threads[0].start()
    shapes = dict(flat(memory.sample(16)))
    try:
        for _ in range(300):
            data, at, found = memory.transfer.sample_bytes(16, 4), 0, {}
            for _ in range(4):
                for key in shapes:
                    found[key] = np.frombuffer(data, shapes[key].dtype, shapes[key].size, at)
                    at += -(-found[key].nbytes // 64) * 64
                recent = found["tag"] < 200
                tags = found["tag"][recent]
                np.testing.assert_array_equal(found["obs/a"].reshape(16, 3)[recent], np.repeat(tags[:, None], 3, 1))
                np.testing.assert_array_equal(found["reward"][recent], tags)
    finally:
        stop.set()
        threads[0].join()
