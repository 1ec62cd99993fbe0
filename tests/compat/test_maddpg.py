"""The buffers of MADDPG codes against plain lists."""

from __future__ import annotations

import pickle
import random
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import relive as rl
from refusals import refused
from relive.compat.maddpg import Buffer, PackedMemory, PolicyBuffer, ReplayBuffer, ReplayMemory

ARGS = SimpleNamespace(buffer_size=8, n_agents=3, obs_shape=[4, 2, 3], action_shape=[1, 2, 5])


def joint_step(number: int) -> tuple[list[Any], list[Any], list[float], list[Any]]:
    """A step all of whose numbers are the same, so that a torn one shows."""
    o = [np.full(n, number, np.float64) for n in ARGS.obs_shape]
    u = [np.full(n, number, np.float32) for n in ARGS.action_shape]
    return o, u, [float(number)] * 3, [value + 0.5 for value in o]


def check_joint(batch: dict[str, Any], known: set[int]) -> list[int]:
    assert list(batch) == [f"{kind}_{i}" for i in range(3) for kind in ("o", "u", "r", "o_next")]
    numbers = batch["r_0"].astype(int).tolist()
    assert set(numbers) <= known
    for i in range(3):
        assert batch[f"o_{i}"].shape == (len(numbers), ARGS.obs_shape[i])
        assert batch[f"u_{i}"].shape == (len(numbers), ARGS.action_shape[i])
        assert batch[f"r_{i}"].tolist() == numbers
        for key, more in (("o", 0), ("u", 0), ("o_next", 0.5)):
            assert (batch[f"{key}_{i}"] == np.array(numbers)[:, None] + more).all()
    return numbers


def test_buffer_as_a_maddpg_code_drives_it() -> None:
    buffer = Buffer(ARGS, seed=0)
    assert (buffer.size, buffer.current_size) == (8, 0)
    counts = np.zeros(27)
    for number in range(27):
        buffer.store_episode(*joint_step(number))
        known = set(range(max(0, number - 7), number + 1))  # first in, first out
        assert buffer.current_size == len(known)
        assert buffer.buffer["o_1"].shape == (8, 2)
        assert (buffer.buffer["o_1"][number % 8] == number).all()
        for drawn in check_joint(buffer.sample(20), known):
            counts[drawn] += 1
    for drawn in check_joint(buffer.sample(8000), known):
        counts[drawn] += 1
    assert stats.chisquare(np.bincount(check_joint(buffer.sample(8000), known))[19:]).pvalue > 1e-3
    transitions = buffer.sample(5)
    for key in transitions:
        transitions[key] = torch.tensor(transitions[key], dtype=torch.float32)
    assert transitions["r_0"].unsqueeze(1).shape == (5, 1)


def test_threads_never_tear_a_row() -> None:
    buffer = Buffer(ARGS, seed=0)
    buffer.store_episode(*joint_step(0))
    stop = threading.Event()
    problems: list[BaseException] = []

    def write(first: int) -> None:
        number = first
        while not stop.is_set():
            buffer.store_episode(*joint_step(number % 4000))
            number += 4

    def read() -> None:
        try:
            for _ in range(400):
                check_joint(buffer.sample(8), set(range(4000)))
        except BaseException as problem:
            problems.append(problem)

    writers = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    for thread in writers:
        thread.join()
    assert not problems
    assert buffer.current_size == 8


def test_buffer_keeps_dones_and_refuses_what_does_not_fit() -> None:
    buffer = Buffer(ARGS, dones=True, dtype="float64")
    for number in range(6):
        done = [number % 2 == 1] * 3 if number < 4 else number % 2 == 1
        buffer.store_episode(*joint_step(number), done=np.array(done) if number < 2 else done)
    batch = buffer.sample(50)
    assert batch["done"].shape == (50, 3)
    assert (batch["done"] == (batch["r_0"] % 2 == 1)[:, None]).all()
    buffer.store_episode(*joint_step(7), done=[False, True, False])
    assert buffer.buffer["done"][6].tolist() == [False, True, False]
    again = pickle.loads(pickle.dumps(buffer))
    assert (again.sample(5)["r_0"] == buffer.sample(5)["r_0"]).all()
    again.buffer["r_0"][:] = 0
    assert buffer.buffer["r_0"].any()
    with refused(rl.errors.StepError, "done"):
        buffer.store_episode(*joint_step(8), done=[False, True])
    assert batch["o_0"].dtype == np.float64
    o, u, r, o_next = joint_step(9)
    with refused(rl.errors.StepError, "o_1"):
        buffer.store_episode([o[0], o[0], o[2]], u, r, o_next)
    with refused(rl.errors.StepError, "u"):
        buffer.store_episode(o, u[:2], r, o_next)
    assert buffer.current_size == 7
    with refused(rl.errors.OptionError, "args.obs_shape", got="1"):
        Buffer(SimpleNamespace(buffer_size=8, n_agents=3, obs_shape=[4], action_shape=[1, 2, 5]))


def test_packed_rows() -> None:
    packed = PackedMemory(3, 2, 6, seed=0)
    for number in range(15):
        s, a = np.full(3, number, np.float64), np.full(2, number + 100.0)
        packed.store_transition(s, a, -number, s + 0.5)
        assert packed.pointer == number + 1
        assert packed.memory.shape == (6, 9)
        assert packed.memory[number % 6].tolist() == [number] * 3 + [number + 100] * 2 + [-number] + [number + 0.5] * 3
        bs, ba, br, bs_ = packed.sample(30)
        assert (bs.shape, ba.shape, br.shape, bs_.shape) == ((30, 3), (30, 2), (30, 1), (30, 3))
        assert set((-br[:, 0]).tolist()) <= set(range(max(0, number - 5), number + 1))
        assert (bs == -br).all()
        assert (ba == -br + 100).all()
        assert (bs_ == -br + 0.5).all()
    with refused(rl.errors.StepError, "s"):
        packed.store_transition(np.zeros(2), a, 0.0, s)
    for wrong in (None, "much", 1e300):
        with refused(rl.errors.StepError, "r"):
            packed.store_transition(s, a, wrong, s)
    assert packed.pointer == 15


def test_pushed_transitions() -> None:
    buffer = ReplayBuffer(7, seed=0)
    with refused(rl.errors.NotEnoughRows, "buffer", got="none"):
        buffer.sample(2)
    plain: list[Any] = []
    for number in range(20):
        state = np.array([number, random.random()])
        buffer.push(state, number % 4, number / 2, state + 1, number % 3 == 0)
        plain = [*plain, (state, number % 4, number / 2, state + 1, number % 3 == 0)][-7:]
        assert len(buffer) == len(plain)
        assert buffer.position == (number + 1) % 7
        state, action, reward, next_state, done = buffer.sample(len(plain))
        assert sorted(reward.tolist()) == [each[2] for each in plain]
        for k in range(len(plain)):
            source = next(each for each in plain if each[2] == reward[k])
            np.testing.assert_array_equal(state[k], source[0].astype(np.float32))
            np.testing.assert_array_equal(next_state[k], source[3].astype(np.float32))
            assert (action[k], done[k]) == (source[1], source[4])
    with pytest.raises(rl.errors.NotEnoughRows):
        buffer.sample(8)
    with refused(rl.errors.StepError, "state"):
        buffer.push(np.zeros(3), 0, 0.0, np.zeros(2), False)
    with refused(rl.errors.StepError, "state"):
        ReplayBuffer(3).push("left", 0, 0.0, "right", False)
    assert [each[2] for each in buffer.buffer] == [7.0, 7.5, 8.0, 8.5, 9.0, 9.5, 6.5]


def test_a_first_push_that_is_refused_decides_nothing() -> None:
    buffer = ReplayBuffer(4)
    assert buffer.buffer == []
    with refused(rl.errors.StepError, "state"):
        buffer.push([1e300, 0.0], 0, 0.0, [0.0, 0.0], False)
    with refused(rl.errors.StepError, "next_state"):
        buffer.push(np.zeros(5), 0, 0.0, np.zeros(2), False)
    buffer.push(np.zeros(3), [0, 1], [1.0, 2.0], np.zeros(3), [False, True])
    assert buffer.sample(1)[4].tolist() == [[False, True]]
    rollout = PolicyBuffer()
    rollout.push(SimpleNamespace(s=np.zeros(2), a=0, r=0.0, done=[False]))
    with refused(rl.errors.StepError, "done"):
        rollout.sample(0.9)


def test_memos() -> None:
    memory = ReplayMemory(2, 5, memory_size=100, batch_size=16, seed=0)
    assert (ReplayMemory(2, 5).MEMORY_SIZE, ReplayMemory(2, 5).BATCH_SIZE) == (10000, 64)
    assert [tuple(each.shape) for each in memory.sample()] == [(0, 2), (0, 1), (0, 1), (0, 1), (0, 2)]
    for number in range(230):
        memory.add_memo([number, -number], number % 5, number, number % 2, [number + 1, -number - 1])
        assert (memory.count, memory.t) == (min(number + 1, 100), (number + 1) % 100)
        s, a, r, done, s_ = memory.sample()
        size = min(16, number + 1)
        assert (s.shape, a.shape, r.shape, done.shape, s_.shape) == ((size, 2), *[(size, 1)] * 3, (size, 2))
        assert (s.dtype, a.dtype, done.dtype) == (torch.float32, torch.int64, torch.float32)
        assert len(set(r[:, 0].tolist())) == size
        if number < 15:  # fewer than are asked for: all, in order
            assert r[:, 0].tolist() == list(range(number + 1))
        assert min(r[:, 0].tolist()) > number - 100
        assert (s[:, 0] == r[:, 0]).all()
        assert (s_[:, 1] == -r[:, 0] - 1).all()
        assert (a == r % 5).all()
        assert (done == r % 2).all()
    assert memory.all_s[229 % 100].tolist() == [229, -229]
    assert (memory.all_a.shape, memory.all_done.shape, memory.all_r.shape) == ((100,), (100,), (100,))
    with refused(rl.errors.StepError, "a"):
        memory.add_memo([0, 0], 5, 0, 0, [0, 0])
    memory.add_memo([0, 0], np.array([4]), 0, 0, [0, 0])


def test_rollouts_with_standardised_returns() -> None:
    buffer = PolicyBuffer()
    assert list(buffer.sample(0.9)) == []
    generator = np.random.default_rng(0)
    for rollout in range(2):
        plain = []
        for number in range(2500):  # more than it begins with
            step = SimpleNamespace(s=np.array([number, 1.0]), a=number % 3, r=float(generator.normal()))
            if rollout:
                step.done = number % 100 == 99
            buffer.push(step)
            plain.append(step)
        assert len(buffer) == len(plain)
        sums, total = [], 0.0
        for step in reversed(plain):
            total = step.r + 0.9 * (0.0 if getattr(step, "done", False) else total)
            sums.append(total)
        sums.reverse()
        advantages, states, actions = buffer.sample(0.9)
        np.testing.assert_allclose(advantages, (np.array(sums) - np.mean(sums)) / np.std(sums), atol=1e-4)
        np.testing.assert_array_equal(states, [step.s for step in plain])
        assert [int(action) for action in actions] == [step.a for step in plain]
        assert [int(step.s[0]) for step in buffer] == list(range(2500))
        buffer.clear()
        assert len(buffer) == len(list(buffer)) == 0


def test_one_return_is_no_division_by_zero() -> None:
    buffer = PolicyBuffer()
    buffer.push(SimpleNamespace(s=np.zeros(1), a=0, r=1.0))
    advantages, _, _ = buffer.sample(0.9)
    assert list(advantages) == [0.0]


def test_a_rollout_is_a_list() -> None:
    steps = [SimpleNamespace(s=[t], a=t, r=float(t), done=t == 2) for t in range(5)]
    rollout = PolicyBuffer()
    rollout.extend(steps[:4])
    rollout.push(steps[4])
    assert isinstance(rollout, list)
    assert rollout[1] is steps[1]
    assert [step.a for step in reversed(rollout)] == [4, 3, 2, 1, 0]
    assert [step.done for step in rollout] == [False, False, True, False, False]
    assert rollout.pop() is steps[4]
    del rollout[0]
    advantages, states, actions = rollout.sample(0.5)
    sums = np.array([1 + 0.5 * 2, 2, 3])
    np.testing.assert_allclose(advantages, (sums - sums.mean()) / sums.std(), atol=1e-5)
    assert (states, actions) == (([1], [2], [3]), (1, 2, 3))


def test_a_buffer_of_one_step_its_lock_and_its_places() -> None:
    args = SimpleNamespace(**vars(ARGS) | {"buffer_size": 1})
    small = Buffer(args, seed=0)
    for number in range(4):
        with small.lock:
            small.store_episode(*joint_step(number))
        assert small.current_size == 1
        assert small.buffer["o_0"].shape == (1, 4)
        assert (small.buffer["o_0"] == number).all()
        assert small.sample(3)["r_1"].tolist() == [number] * 3
    buffer = Buffer(ARGS, seed=0)
    for number in range(9):
        buffer.store_episode(*joint_step(number))
    place = buffer._get_storage_idx(inc=1)
    assert place == 1
    o, u, r, o_next = joint_step(50)
    for i in range(3):  # as their store_episode does it
        buffer.buffer[f"o_{i}"][place], buffer.buffer[f"u_{i}"][place] = o[i], u[i]
        buffer.buffer[f"r_{i}"][place], buffer.buffer[f"o_next_{i}"][place] = r[i], o_next[i]
    assert set(check_joint(buffer.sample(400), {*range(2, 9), 50})) == {*range(2, 9), 50}
    assert buffer._get_storage_idx(3).tolist() == [2, 3, 4]
    with refused(rl.errors.OptionError, "inc", got="9"):
        buffer._get_storage_idx(9)
    with refused(rl.errors.OptionError, "buffer_size", got="0"):
        Buffer(SimpleNamespace(**vars(ARGS) | {"buffer_size": 0}))


def test_rows_of_lone_numbers() -> None:
    packed = PackedMemory(1, 1, 4, seed=0)
    packed.store_transition(np.float64(1.0), 2, 3.0, np.array([4.0]))
    assert packed.memory[0].tolist() == [1, 2, 3, 4]


def test_pushed_whole_numbers_and_then_others() -> None:
    buffer = ReplayBuffer(3, seed=0)
    buffer.push([1, 2], 0, 1, [2, 3], False)
    buffer.push([0.5, 2], 1.5, 0.5, [2, 3.5], True)
    buffer.push(np.array([7, 8]), 2, 0, [9, 9], False)
    states, actions, *_ = buffer.sample(3)
    assert sorted(states.tolist()) == [[0.5, 2], [1, 2], [7, 8]]
    assert sorted(actions.tolist()) == [0, 1.5, 2]
    buffer.push([3, 3], 2, 0, [9, 9], False)
    assert [each[0].tolist() for each in buffer.buffer] == [[3, 3], [0.5, 2], [7, 8]]
    lone = ReplayBuffer(1, seed=0)
    for number in range(3):
        lone.push([number], number, number, [number], False)
        assert lone.sample(1)[2].tolist() == [number]
        assert len(lone) == 1


def test_pushed_dicts_and_agents_that_differ() -> None:
    buffer = ReplayBuffer(5, seed=0)
    for number in range(8):
        state = {"camera": np.full((2, 2), number, np.uint8), "joints": [number / 2, 1.0]}
        buffer.push(state, number, number, state, False)
    states, actions, rewards, following, _ = buffer.sample(5)
    assert isinstance(states, tuple)
    for state, action, after in zip(states, actions, following, strict=True):
        assert (state["camera"] == action).all()
        assert state["joints"].tolist() == [action / 2, 1.0]
        assert (after["camera"] == state["camera"]).all()
    assert sorted(rewards.tolist()) == [3, 4, 5, 6, 7]
    ragged = ReplayBuffer(5, seed=0)
    for number in range(8):
        seen = [np.full(3, number), np.full(2, number), np.full(4, number + 0.5)]
        ragged.push(seen, [0, 1, 2], [1.0, 2.0, number], seen, [False, False, True])
    states, actions, rewards, *_, done = ragged.sample(4)
    assert [each.shape for each in states[0]] == [(3,), (2,), (4,)]
    assert all((state[2] == reward[2] + 0.5).all() for state, reward in zip(states, rewards, strict=True))
    assert actions.shape == rewards.shape == done.shape == (4, 3)
