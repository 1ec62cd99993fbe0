"""XuanCe's memories for many agents, driven as its agents do and compared with plain computations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from relive.compat.xuance.v1_1 import memory_tools_marl as xm
from xuance_marl_world import (
    ACT,
    DIM,
    OBS,
    STATE,
    A,
    Normalizer,
    World,
    check_episode,
    episodes_world,
    make,
    plain_targets,
)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("use_gae", [True, False])
@pytest.mark.parametrize("cls", [xm.MARL_OnPolicyBuffer, xm.MeanField_OnPolicyBuffer, xm.COMA_Buffer])
def test_on_policy_buffers_as_an_agent_drives_them(cls: Any, use_gae: bool, normalized: bool) -> None:
    n_envs, n_size = 2, 12
    buffer = make(cls, n_envs, n_envs * n_size, use_gae=use_gae)
    kind = "td" if cls is xm.COMA_Buffer else "gae" if use_gae else "sums"
    normalizer = Normalizer() if normalized else None
    world = World(n_envs)
    for _ in range(3):
        told: list[list[dict[str, Any]]] = [[] for _ in range(n_envs)]
        expected: list[list[tuple[Any, Any]]] = [[] for _ in range(n_envs)]

        def finish(env: int, told: Any = told, expected: Any = expected) -> None:
            last = world.random.normal(size=(A, 1)).astype(np.float32)
            real = last[:, 0].astype(float)
            path = told[env][len(expected[env]) :]
            for step in path:
                step["value"] = step["values"][:, 0] * 3.0 + 2 if normalized else step["values"][:, 0]
            returns, advantages = plain_targets(path, real * 3 + 2 if normalized else real, kind)
            expected[env] += list(zip(returns, advantages, strict=True))
            if cls is xm.MeanField_OnPolicyBuffer and normalizer is None:
                buffer.finish_ac_path(last, env)
            else:
                buffer.finish_path(last, env, normalizer)

        while not buffer.full:
            step = world.step()
            buffer.store(step)
            for env in range(n_envs):
                told[env].append({key: value[env] for key, value in step.items()})
                if step["terminals"][env].all() or step["truncations"][env]:
                    finish(env)
        for env in range(n_envs):
            if len(expected[env]) < n_size:
                finish(env)
        shape = (n_envs, n_size, A, 1)
        for place, key in enumerate(["returns", "advantages"]):
            if key in buffer.data:
                plain = np.array([[row[place] for row in rows] for rows in expected]).reshape(shape)
                np.testing.assert_allclose(buffer.data[key], plain, rtol=1e-4, atol=1e-5)
        indexes = world.random.permutation(n_envs * n_size)[:17]
        samples = buffer.sample(indexes)
        assert list(samples) == list(buffer.keys)
        for k, (env, slot) in enumerate(divmod(int(index), n_size) for index in indexes):
            for key in set(samples) - {"returns", "advantages"}:
                np.testing.assert_array_equal(samples[key][k], told[env][slot][key], err_msg=key)
        if "advantages" in samples:
            mask = samples["agent_mask"][..., None]
            raw = np.stack([np.array(expected[e][s][1])[:, None] for e, s in (divmod(int(i), n_size) for i in indexes)])
            plain = (raw - raw[mask].mean()) / raw[mask].std()
            np.testing.assert_allclose(samples["advantages"][mask], plain[mask], rtol=1e-3, atol=1e-4)
        buffer.clear()
        assert (buffer.ptr, buffer.size, buffer.full) == (0, 0, False)
        assert buffer.start_ids.tolist() == [0, 0]
        assert not buffer.data["obs"].any()


@pytest.mark.parametrize("cls", [xm.MARL_OffPolicyBuffer, xm.MeanField_OffPolicyBuffer])
def test_off_policy_buffers_as_an_agent_drives_them(cls: Any) -> None:
    n_envs, n_size, batch = 3, 10, 20
    mean_field = cls is xm.MeanField_OffPolicyBuffer
    prob = ((DIM,),) if mean_field else ()
    buffer = cls(A, STATE, OBS, ACT, *prob, (A, 1), (A,), n_envs, n_envs * n_size, batch, seed=0)
    assert (buffer.n_size, buffer.store_global_state) == (n_size, True)
    world = World(n_envs)
    told: list[dict[str, Any]] = []
    for _ in range(35):
        step = world.step()
        buffer.store(step)
        step["next_mean"] = step["act_mean"].copy()
        if told:
            going = ~(told[-1]["terminals"].all(axis=1) | told[-1]["truncations"])
            told[-1]["next_mean"][going] = step["act_mean"][going]
        told = [*told, step][-n_size:]
        assert (buffer.ptr, buffer.size) == (world.t % n_size, len(told))
        assert buffer.full == (len(told) == n_size)
        np.testing.assert_array_equal(buffer.truncations[:, buffer.ptr - 1], step["truncations"])
        samples = buffer.sample()
        for k in range(batch):
            where = [
                (t, e) for t, s in enumerate(told) for e in range(n_envs) if s["state"][e, 0] == samples["state"][k, 0]
            ]
            t, env = where[0]
            for key in set(samples) - {"act_mean_next"}:
                np.testing.assert_array_equal(samples[key][k], told[t][key][env], err_msg=key)
            if mean_field:
                np.testing.assert_array_equal(samples["act_mean_next"][k], told[t]["next_mean"][env])
    buffer.clear()
    assert (buffer.ptr, buffer.size) == (0, 0)
    with pytest.raises(rl.errors.NotEnoughRows):
        buffer.sample()


@pytest.mark.parametrize("use_gae", [True, False])
@pytest.mark.parametrize("cls", [xm.MARL_OnPolicyBuffer_RNN, xm.COMA_Buffer_RNN])
@pytest.mark.parametrize("state", [STATE, None])
def test_on_policy_episodes_as_an_agent_drives_them(cls: Any, use_gae: bool, state: Any) -> None:
    n_envs, size = 3, 6
    buffer = make(cls, n_envs, size, use_gae=use_gae, state=state)
    kind = "td" if cls is xm.COMA_Buffer_RNN else "gae" if use_gae else "sums"
    world = World(n_envs)
    for _ in range(3):
        stored = episodes_world(buffer, world, 2)
        assert buffer.full
        assert buffer.ptr == 0
        order = world.random.permutation(size)
        samples = buffer.sample(order)
        assert ("state" in samples) == (state is not None)
        expected = []
        for episode in stored:
            for step in episode["steps"]:
                step["value"] = step["values"][:, 0]
            expected.append(plain_targets(episode["steps"], episode["last"], kind))
        for k, place in enumerate(order):
            check_episode(samples, k, stored[place])
            length = len(stored[place]["steps"])
            returns = np.array(expected[place][0])
            np.testing.assert_allclose(samples["returns"][k, :, :length, 0].T, returns, rtol=1e-4, atol=1e-5)
            assert not samples["returns"][k, :, length:].any()
        if cls is xm.MARL_OnPolicyBuffer_RNN:
            raw = np.concatenate([np.ravel(each[1]) for each in expected])
            for k, place in enumerate(order):
                length = len(stored[place]["steps"])
                plain = (np.array(expected[place][1]) - raw.mean()) / raw.std()
                np.testing.assert_allclose(samples["advantages"][k, :, :length, 0].T, plain, rtol=1e-3, atol=1e-4)
        buffer.clear()
        assert (buffer.ptr, buffer.size, buffer.full) == (0, 0, False)


def test_episodes_that_are_not_cleared_go_round() -> None:
    buffer = make(xm.MARL_OnPolicyBuffer_RNN, 2, 5)
    stored = episodes_world(buffer, World(2), 4)  # eight into five
    assert (buffer.ptr, buffer.size) == (3, 5)
    samples = buffer.sample([0, 1, 2, 3, 4])
    for k, number in enumerate([5, 6, 7, 3, 4]):
        check_episode(samples, k, stored[number])


def test_off_policy_episodes_as_an_agent_drives_them() -> None:
    n_envs, size = 2, 5
    buffer = xm.MARL_OffPolicyBuffer_RNN(
        A, STATE, OBS, ACT, (1,), (A,), n_envs, size, 12, max_episode_length=7, dim_act=DIM, seed=0
    )
    world = World(n_envs)
    stored: list[dict[str, Any]] = []
    for number in range(9):
        stored = (stored + episodes_world(buffer, world, 1))[-size:]
        assert (buffer.ptr, buffer.size) == ((number + 1) * n_envs % size, len(stored))
        assert buffer.full == (len(stored) == size)
        samples = buffer.sample()
        firsts = [episode["steps"][0]["obs"][0, 0] for episode in stored]
        for k in range(12):
            check_episode(samples, k, stored[firsts.index(samples["obs"][k, 0, 0, 0])])
        newest = buffer.data["obs"][buffer.ptr - 1]
        np.testing.assert_array_equal(newest[:, 0], stored[-1]["steps"][0]["obs"])
    buffer.clear()
    assert buffer.size == 0
