"""XuanCe's rollouts of many agents: returns and advantages along paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.compat.xuance.v1_1 import memory_tools_marl as xm
from xuance_marl_world import (
    ACT,
    OBS,
    STATE,
    A,
    Normalizer,
    World,
    make,
    rnn,
    rnn_step,
    rollout,
)


def test_without_gae_many_agents_have_masked_returns_too() -> None:
    buffer = xm.MARL_OnPolicyBuffer(2, None, (1,), (), (2, 1), (2,), 1, 3, False, False, 0.5, 0.9)
    for reward, done in ((1.0, [False, False]), (1.0, [True, False]), (4.0, [False, False])):
        step = {"obs": np.zeros((1, 2, 1)), "actions": np.zeros((1, 2)), "rewards": np.full((1, 2, 1), reward)}
        step |= {"values": np.full((1, 2, 1), 0.5), "log_pi_old": np.zeros((1, 2)), "terminals": np.array([done])}
        buffer.store(step)
    buffer.finish_path(np.array([[8.0], [8.0]]), 0)
    assert buffer.data["returns"][0, :, 0, 0].tolist() == [1.5, 1.0, 8.0]
    assert buffer.data["returns"][0, :, 1, 0].tolist() == [3.5, 5.0, 8.0]
    assert buffer.data["advantages"][0, :, 0, 0].tolist() == [1.0, 0.5, 7.5]


def test_finish_path_denormalises_by_the_value_normalizer() -> None:
    for cls in (xm.MARL_OnPolicyBuffer, xm.COMA_Buffer):
        buffer, world = rollout(cls, n_envs=1, size=4)
        plain, _ = rollout(cls, n_envs=1, size=4)
        for _ in range(4):
            step = world.step()
            buffer.store(step)
            plain.store(step | {"values": step["values"] * 3 + 2})
        last = np.ones((A, 1), np.float32)
        buffer.finish_path(last, 0, Normalizer())
        plain.finish_path(last * 3 + 2, 0)
        np.testing.assert_allclose(buffer.data["returns"], plain.data["returns"], rtol=1e-6)
        np.testing.assert_array_equal(buffer.data["values"][0, 3], step["values"][0])


def test_marl_finish_path_twice_does_nothing_the_second_time() -> None:
    buffer, world = rollout(n_envs=1, size=4)
    for _ in range(4):
        buffer.store(world.step())
    buffer.finish_path(np.ones((A, 1)), 0)
    before = buffer.data["returns"].copy()
    buffer.finish_path(np.full((A, 1), 50.0), 0)
    np.testing.assert_array_equal(buffer.data["returns"], before)


def test_advantage_statistics_leave_dead_agents_out() -> None:
    buffer, world = rollout(n_envs=1, size=4)
    for _ in range(4):
        step = world.step()
        step["agent_mask"][:] = [[True, True, False]]
        step["rewards"][:, 2] = 1e6
        buffer.store(step)
    buffer.finish_path(np.zeros((A, 1)), 0)
    samples = buffer.sample(np.arange(4))
    alive = samples["advantages"][:, :2]
    assert abs(alive.mean()) < 1e-5
    assert alive.std() == pytest.approx(1.0, abs=1e-4)
    assert not samples["advantages"][:, 2].any()


def test_coma_td_lambda_bootstraps_at_truncation_and_stops_at_a_terminal() -> None:
    buffer = xm.COMA_Buffer(1, None, (1,), (), (1, 1), (1,), 1, 3, True, False, 0.5, 0.9, dim_act=2, td_lambda=0.5)
    for reward, value, done in ((1.0, 2.0, False), (1.0, 4.0, True), (1.0, 6.0, False)):
        step = {"obs": np.zeros((1, 1, 1)), "actions": np.zeros((1, 1)), "rewards": np.full((1, 1, 1), reward)}
        step |= {"values": np.full((1, 1, 1), value), "log_pi_old": np.zeros((1, 1)), "terminals": np.array([[done]])}
        buffer.store(step | {"actions_onehot": np.zeros((1, 1, 2))})
    buffer.finish_path(np.array([[8.0]]), 0)
    # 1 + .5 (.5 * 8 + .5 * 8) = 5;  1, terminal;  1 + .5 (.5 * 4 + .5 * 1) = 2.25
    assert buffer.data["returns"].ravel().tolist() == [2.25, 1.0, 5.0]


def test_finish_ac_path_works_out_returns_and_advantages() -> None:
    buffer, world = rollout(xm.MeanField_OnPolicyBuffer, n_envs=1, size=4)
    plain, _ = rollout(n_envs=1, size=4)
    for _ in range(4):
        step = world.step()
        buffer.store(step)
        plain.store(step)
    last = np.ones((A, 1), np.float32)
    buffer.finish_ac_path(last, 0)
    plain.finish_path(last, 0)
    assert buffer.data["returns"].any()
    for key in ("returns", "advantages"):
        np.testing.assert_array_equal(buffer.data[key], plain.data[key])
    assert buffer.start_ids.tolist() == [0]


def test_what_finish_path_refuses() -> None:
    buffer, world = rollout()
    buffer.store(world.step())
    with refused(rl.errors.OptionError, "i_env", got="2"):
        buffer.finish_path(np.zeros((A, 1)), 2)
    with refused(rl.errors.OptionError, "value"):
        buffer.finish_path(np.zeros(2), 0)
    with refused(rl.errors.NotEnoughRows, "buffer", got="1 of 12 steps"):
        buffer.sample(np.arange(2))
    episodes = rnn(n_envs=2)
    with refused(rl.errors.NotEnoughRows, "buffer", got="0 of 4 episodes"):
        episodes.sample(np.arange(2))
    data = rnn_step(World(2))
    filled = np.zeros((2, 7, 1), bool)
    with refused(rl.errors.OptionError, "next_t", got="8"):
        episodes.finish_path(0, 8, data[0], data[2], data[5], filled)
    with refused(rl.errors.OptionError, "terminal_data"):
        episodes.finish_path(0, 2, data[0])
    with refused(rl.errors.OptionError, "next_t"):
        episodes.finish_path(0, 2, data[0], data[2], data[5], filled)
    with refused(rl.errors.StepError, "rewards"):
        episodes.store_transitions(0, *data[:3], data[3][..., 0], *data[4:])
    assert not episodes.episode_data["obs"].any()
    for t in range(2):
        episodes.store_transitions(t, *data)
    with refused(rl.errors.StepError, "obs of environment 0"):
        episodes.finish_path(0, 2, data[0][:, 0], data[2], data[5], filled)
    with refused(rl.errors.StepError, "state of environment 0"):
        episodes.finish_path(0, 2, data[0], None, data[5], filled)
    with pytest.raises(rl.errors.StepError) as caught:
        episodes.store_transitions(2, data[0], {}, *data[2:])
    assert [problem.name for problem in caught.value.problems] == ["actions_n", "values"]
    full = make(xm.MARL_OnPolicyBuffer, 1, 8)
    for _ in range(8):
        full.store(World(1, limits=False).step())
    with refused(rl.errors.OptionError, "indexes"):
        full.sample(np.zeros(0, int))
    with refused(rl.errors.OptionError, "done_space"):
        xm.MARL_OnPolicyBuffer(A, None, OBS, ACT, (A, 1), (2,), 1, 4, True, True, 0.9, 0.9)
    with refused(rl.errors.OptionError, "dim_act", got="nothing"):
        xm.MARL_OffPolicyBuffer_RNN(A, STATE, OBS, ACT, (1,), (A,), 2, 4, 2, max_episode_length=7)
    with refused(rl.errors.OptionError, "rew_space"):
        xm.MARL_OnPolicyBuffer(A, None, OBS, ACT, (2,), (A,), 1, 4, True, True, 0.9, 0.9)


def test_one_reward_for_all_agents() -> None:
    buffer = xm.MARL_OnPolicyBuffer(2, None, (1,), (), (1,), (), 1, 2, True, False, 0.5, 1.0)
    step = {"obs": np.zeros((1, 2, 1)), "actions": np.zeros((1, 2)), "rewards": np.ones((1, 1))}
    step |= {"values": np.array([[[0.0], [1.0]]]), "log_pi_old": np.zeros((1, 2)), "terminals": np.array([False])}
    for _ in range(2):
        buffer.store(step)
    buffer.finish_path(0.0, 0)
    assert buffer.data["returns"][0, :, :, 0].tolist() == [[1.5, 1.5], [1.0, 1.0]]
    assert buffer.data["advantages"][0, :, :, 0].tolist() == [[1.5, 0.5], [1.0, 0.0]]


def test_returns_do_not_run_over_time_limits() -> None:
    buffer, world = rollout(n_envs=1, size=4)
    for shape in ((1,), (1, A)):
        buffer.clear()
        buffer.store(world.step() | {"truncations": np.ones(shape, bool)})
        with refused(rl.errors.StepError, "finish_path"):
            buffer.store(world.step())
        assert buffer.size == 1
        buffer.finish_path(0.0, 0)
        buffer.store(world.step())


def test_a_normaliser_that_fails_leaves_the_episode_going() -> None:
    class Broken:
        def denormalize(self, values: Any) -> Any:
            raise RuntimeError("broken")

    buffer, world = rnn(n_envs=2), World(2)
    data = rnn_step(world)
    buffer.store_transitions(0, *data)
    filled = np.arange(7)[None, :, None].repeat(2, axis=0) < 1
    with pytest.raises(RuntimeError, match="broken"):
        buffer.finish_path(0, 1, data[0], data[2], data[5], filled, value_normalizer=Broken())
    buffer.store_episodes()
    assert buffer.size == 0
