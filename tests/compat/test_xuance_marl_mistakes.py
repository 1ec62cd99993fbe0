"""What XuanCe's documents get wrong about memories for many agents, row by row; and what else may go wrong."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy import stats

import relive as rl
from refusals import refused
from relive.compat.xuance.v1_1 import memory_tools_marl as xm
from xuance_marl_world import (
    ACT,
    DIM,
    OBS,
    STATE,
    A,
    World,
    episodes_world,
    make,
    mean_field,
    mean_step,
    pairs_of,
    rnn,
    rnn_step,
    rollout,
)


def test_act_mean_next_stays_within_its_episode() -> None:
    buffer = mean_field(6)
    buffer.store(mean_step(1.0))
    buffer.store(mean_step(2.0, done=True))
    buffer.store(mean_step(3.0, act_mean_next=np.array([[9.0]]), truncations=np.array([True])))
    buffer.store(mean_step(4.0, truncations=np.array([True])))
    buffer.store(mean_step(5.0))
    following = pairs_of(buffer)
    assert following == {1.0: 2.0, 2.0: 2.0, 3.0: 9.0, 4.0: 4.0, 5.0: 5.0}
    buffer.store(mean_step(6.0))
    for mean in (7.0, 8.0):  # past the end of the slots, over the write pointer
        buffer.store(mean_step(mean))
    following = pairs_of(buffer)
    assert following == {3.0: 9.0, 4.0: 4.0, 5.0: 6.0, 6.0: 7.0, 7.0: 8.0, 8.0: 8.0}


def test_a_list_of_times_writes_the_cell_of_every_environment() -> None:
    buffer, world = rnn(n_envs=3), World(3)
    data = rnn_step(world)
    buffer.store_transitions([0, 4, 2], *data)
    for env, t in enumerate([0, 4, 2]):
        np.testing.assert_array_equal(buffer.episode_data["obs"][env, :, t], data[0][env])
        np.testing.assert_array_equal(buffer.episode_data["terminals"][env, t], data[4][env])
        others = np.arange(8) != t
        assert not buffer.episode_data["obs"][env][:, others].any()
    with refused(rl.errors.OptionError, "t_envs"):
        buffer.store_transitions([0, 1], *data)
    with refused(rl.errors.OptionError, "t_envs", got="7"):
        buffer.store_transitions(7, *data)


def test_state_is_skipped_where_there_is_none() -> None:
    for cls in (xm.MARL_OnPolicyBuffer_RNN, xm.COMA_Buffer_RNN):
        buffer = make(cls, n_envs=2, size=4, state=None)
        assert "state" not in buffer.data
        episodes_world(buffer, World(2), 2)
        assert "state" not in buffer.sample(np.arange(4))
    step = World(2).step()
    buffer, _ = rollout(state=None)
    buffer.store(step)
    assert "state" not in buffer.data


def test_store_episodes_stores_finished_environments_only() -> None:
    buffer, world = rnn(n_envs=3), World(3)
    data = [rnn_step(world) for _ in range(3)]
    for t in range(2):
        buffer.store_transitions(t, *data[t])
    filled = np.zeros((3, 7, 1), bool)
    filled[:, :2] = True
    buffer.finish_path(1, 2, data[2][0], data[2][2], data[2][5], filled, value_next=np.zeros((A, 1)))
    buffer.store_episodes()
    assert (buffer.size, buffer.ptr) == (1, 1)
    np.testing.assert_array_equal(buffer.data["obs"][0, :, 0], data[0][0][1])
    assert not buffer.episode_data["obs"][1].any()
    buffer.store_transitions([2, 0, 2], *data[2])
    for env in (0, 2):
        np.testing.assert_array_equal(buffer.episode_data["obs"][env, :, 1], data[1][0][env])
        buffer.finish_path(env, 3, data[0][0], data[0][2], data[0][5], filled, value_next=np.zeros((A, 1)))
    with refused(rl.errors.StepError, "store_episodes"):
        buffer.store_transitions(0, *data[0])
    buffer.store_episodes()
    assert buffer.size == 3
    buffer.store_episodes()
    assert buffer.size == 3


def test_off_policy_episodes_are_full_when_they_are_and_have_no_store() -> None:
    buffer = xm.MARL_OffPolicyBuffer_RNN(A, STATE, OBS, ACT, (1,), (A,), 2, 4, 2, max_episode_length=7, dim_act=DIM)
    world = World(2)
    episodes_world(buffer, world, 1)
    assert not buffer.full
    episodes_world(buffer, world, 1)
    assert buffer.full
    with refused(rl.errors.OptionError, "store"):
        buffer.store({})


def test_rows_past_filled_are_zero() -> None:
    buffer = xm.MARL_OffPolicyBuffer_RNN(A, STATE, OBS, ACT, (1,), (A,), 1, 1, 1, max_episode_length=7, dim_act=DIM)
    world = World(1)
    for length, told in ((7, 7), (2, 2), (3, 6)):  # told of the end at once, or late
        data = [rnn_step(world) for _ in range(8)]
        for t in range(7):  # the environment steps on after its end
            buffer.store_transitions(t, *data[t])
            if t + 1 == told:
                filled = np.arange(7)[None, :, None] < length
                buffer.finish_path(0, length, data[7][0], data[7][2], data[7][5], filled)
        buffer.store_episodes()
        for key, array in buffer.data.items():
            rows = array[0].swapaxes(0, 1) if key not in ("terminals", "filled", "state") else array[0]
            rest = rows[length + (key in ("obs", "state", "avail_actions")) :]
            assert rest.all() if key == "avail_actions" else not rest.any(), key
        np.testing.assert_array_equal(buffer.data["obs"][0, :, length], data[7][0][0])


def test_missing_names_are_all_listed_and_nothing_is_written() -> None:
    off = xm.MARL_OffPolicyBuffer(A, STATE, OBS, ACT, (A, 1), (A,), 2, 8, 4)
    step = World(2).step()
    for buffer in (off, rollout()[0]):
        partial = {key: value for key, value in step.items() if key not in ("obs", "terminals")}
        with pytest.raises(rl.errors.StepError) as caught:
            buffer.store(partial)
        assert [problem.name for problem in caught.value.problems] == ["obs", "terminals"]
        assert buffer.size == 0
        assert not buffer.data["actions"].any()
        del partial["agent_mask"]
        buffer.store(partial | {"obs": step["obs"], "terminals": step["terminals"]})
        assert buffer.data["agent_mask"][:, 0].all()
        for key in ("obs", "rewards", "state", "terminals"):
            with refused(rl.errors.StepError, key):
                buffer.store(step | {key: step[key][0]})
        assert buffer.size == 1


def test_sizes_that_do_not_divide_are_refused_with_the_nearest() -> None:
    with refused(rl.errors.OptionError, "buffer_size"):
        make(xm.MARL_OnPolicyBuffer, 4, 10)
    with refused(rl.errors.OptionError, "buffer_size"):
        xm.MARL_OffPolicyBuffer(A, None, OBS, ACT, (A, 1), (A,), 4, 10, 4)


def test_spaces_may_be_gymnasium_spaces_and_keep_their_dtype() -> None:
    box = gymnasium.spaces.Box(0, 2**40, (2,), np.int64)
    nest = gymnasium.spaces.Dict({"a": box, "b": gymnasium.spaces.Discrete(3)})
    buffer = xm.MARL_OffPolicyBuffer(2, box, nest, gymnasium.spaces.Discrete(4), (2, 1), (2,), 1, 4, 3)
    obs = {"a": np.full((1, 2, 2), 16777217), "b": np.ones((1, 2), int)}
    step = {"obs": obs, "obs_next": obs, "actions": np.full((1, 2), 3), "rewards": np.zeros((1, 2, 1))}
    states = np.full((1, 2), 2**40)
    buffer.store(step | {"terminals": np.zeros((1, 2), bool), "state": states, "state_next": states})
    samples = buffer.sample()
    assert samples["obs"]["a"][0, 0, 0] == 16777217
    assert samples["state"][0, 0] == 2**40
    assert samples["actions"].dtype == np.int64


def test_draws_are_uniform_over_all_steps() -> None:
    buffer = xm.MARL_OffPolicyBuffer(1, (1,), (1,), (), (1, 1), (1,), 2, 8, 4000, seed=0)
    for t in range(4):
        step = {"obs": np.zeros((2, 1, 1)), "obs_next": np.zeros((2, 1, 1)), "actions": np.zeros((2, 1))}
        state = np.array([[t], [t + 4]])
        step |= {
            "rewards": np.zeros((2, 1, 1)),
            "terminals": np.zeros((2, 1), bool),
            "state": state,
            "state_next": state,
        }
        buffer.store(step)
    counts = np.bincount(buffer.sample()["state"].ravel().astype(int), minlength=8)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_marl_buffers_can_be_saved_and_go_on(tmp_path: Path) -> None:
    buffer, world = rollout(size=16)
    for _ in range(5):
        buffer.store(world.step())
    buffer.finish_path(np.zeros((A, 1)), 0)
    again = make(xm.MARL_OnPolicyBuffer, size=16)
    again.load_state_dict(buffer.state_dict())
    for _ in range(3):
        step = world.step()
        for each in (buffer, again):
            each.store(step)
    for each in (buffer, again):
        for env in range(2):
            each.finish_path(np.ones((A, 1)), env)
    for key in buffer.keys:
        np.testing.assert_array_equal(buffer.data[key], again.data[key])
    options: dict[str, Any] = {"max_episode_length": 7, "dim_act": DIM}
    one = xm.MARL_OffPolicyBuffer_RNN(A, STATE, OBS, ACT, (1,), (A,), 2, 5, 4, seed=1, **options)
    two = xm.MARL_OffPolicyBuffer_RNN(A, STATE, OBS, ACT, (1,), (A,), 2, 5, 4, seed=2, **options)
    episodes_world(one, World(2), 3)
    one.save(tmp_path)
    two.load(tmp_path)
    assert (two.ptr, two.size, two.full) == (1, 5, True)
    for ours, theirs in zip(one.sample().values(), two.sample().values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    field = mean_field()
    field.store(mean_step(1.0))
    other = mean_field()
    other.load_state_dict(field.state_dict())
    other.store(mean_step(2.0))
    assert other.data["act_mean_next"].ravel().tolist() == [2.0, 2.0, 0.0, 0.0]


def test_arrays_are_views() -> None:
    on, world = rollout(size=8)
    on.store(world.step())
    on.data["rewards"][0, 0] = 7.0
    for _ in range(3):
        on.store(world.step())
    assert (on.sample(np.array([0]))["rewards"] == 7.0).all()
    episodes = rnn(n_envs=2)
    episodes_world(episodes, World(2), 2)
    episodes.data["rewards"][1, 2, 0] = 7.0
    assert (episodes.sample(np.array([1]))["rewards"][0, 2, 0] == 7.0).all()
    off = xm.MARL_OffPolicyBuffer(A, STATE, OBS, ACT, (A, 1), (A,), 2, 8, 4)
    off.store(World(2).step())
    off.data["rewards"][:, 0] = 7.0
    assert (off.sample()["rewards"] == 7.0).all()


def test_algorithms_without_log_probabilities_may_leave_them_out() -> None:
    for cls in (xm.MARL_OnPolicyBuffer, xm.COMA_Buffer):
        buffer, world = rollout(cls)
        for absent in ({"log_pi_old": None}, {}):
            step = {key: value for key, value in world.step().items() if key != "log_pi_old"}
            buffer.store(step | absent)
        assert buffer.size == 2
    mean, world = rollout(xm.MeanField_OnPolicyBuffer)
    mean.store({key: value for key, value in world.step().items() if key != "act_mean"})
    assert not mean.data["act_mean"].any()
    for cls in (xm.MARL_OnPolicyBuffer_RNN, xm.COMA_Buffer_RNN):
        buffer, world = make(cls, 2, 4), World(2)
        obs, actions, *rest = rnn_step(world)
        onehot = np.zeros((2, A, DIM))
        buffer.store_transitions(0, obs, actions | {"log_pi": None, "act_n_onehot": onehot}, *rest)
        assert not buffer.episode_data["log_pi_old"].any()


def test_episodes_refuse_what_would_be_lost() -> None:
    image = gymnasium.spaces.Box(0, 255, (2,), np.uint8)
    buffer = xm.MARL_OffPolicyBuffer_RNN(1, None, image, (), (1,), (1,), 1, 2, 1, max_episode_length=3, dim_act=2)
    good = [np.ones((1, 1, 2), int), {"actions_n": np.ones((1, 1))}, None, np.zeros((1, 1, 1)), np.zeros((1, 1), bool)]
    good.append(np.ones((1, 1, 2)))
    buffer.store_transitions(0, *good)
    for place, wrong, about in (
        (0, np.full((1, 1, 2), 0.9), "obs"),
        (3, np.full((1, 1, 1), 1e300), "rewards"),
        (4, np.full((1, 1), 0.3), "terminals"),
        (5, np.full((1, 1, 2), 0.5), "avail_actions"),
    ):
        with refused(rl.errors.StepError, about):
            buffer.store_transitions(1, *good[:place], wrong, *good[place + 1 :])
    filled = np.arange(3)[None, :, None] < 1
    with refused(rl.errors.StepError, "obs of environment 0"):
        buffer.finish_path(0, 1, np.full((1, 1, 2), 300), None, good[5], filled)
    with refused(rl.errors.StepError, "filled of environment 0"):
        buffer.finish_path(0, 1, good[0], None, good[5], filled * 7)
    buffer.store_episodes()
    assert buffer.size == 0
    buffer.finish_path(0, 1, good[0], None, good[5], filled.astype(float))
    buffer.store_episodes()
    assert buffer.size == 1


def test_batches_of_episodes_lie_as_torch_wants_them() -> None:
    buffer = rnn(n_envs=2)
    episodes_world(buffer, World(2), 2)
    assert all(array.flags.c_contiguous for array in buffer.sample(np.arange(4)).values())


def test_clear_forgets_what_waits() -> None:
    buffer = mean_field(6)
    buffer.store(mean_step(1.0))
    buffer.clear()
    buffer.store(mean_step(2.0))
    assert buffer.data["act_mean_next"].ravel().tolist() == [2.0, 0, 0, 0, 0, 0]


def test_a_single_agent_with_a_plain_reward() -> None:
    buffer = xm.MARL_OnPolicyBuffer(1, None, (4,), (), (), (), 2, 4, True, True, 0.99, 0.95)
    for _ in range(2):
        step = {"obs": np.zeros((2, 1, 4)), "actions": np.zeros((2, 1)), "rewards": np.ones(2)}
        buffer.store(step | {"values": np.zeros((2, 1, 1)), "terminals": np.zeros(2, bool)})
    for env in range(2):
        buffer.finish_path(0.0, env)
    assert buffer.sample(np.arange(4))["advantages"].shape == (4,)


def test_buffers_can_be_copied() -> None:
    buffer, world = rollout(size=8)
    buffer.store(world.step())
    again = copy.deepcopy(buffer)
    step = world.step()
    for each in (buffer, again):
        each.store(step)
        for env in range(2):
            each.finish_path(np.ones((A, 1)), env)
    for key in buffer.keys:
        np.testing.assert_array_equal(buffer.data[key], again.data[key])
    again.data["rewards"][:] = 0
    assert buffer.data["rewards"].any()
    episodes = rnn(n_envs=2)
    episodes_world(episodes, World(2), 2)
    np.testing.assert_array_equal(episodes.data["obs"], pickle.loads(pickle.dumps(episodes)).data["obs"])
