"""XuanCe's memories for many agents, driven as its agents do and compared with plain computations."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy import stats

import recollect as rc
from recollect.compat.xuance import memory_tools_marl as xm

A, OBS, ACT, STATE, DIM = 3, (4,), (), (5,), 6
GAMMA, LAM = 0.9, 0.8


class Normalizer:
    """Values are kept as (value - 2) / 3."""

    def denormalize(self, values: Any) -> Any:
        return values * 3 + 2


class World:
    """Steps of many agents whose numbers say where they came from."""

    def __init__(self, n_envs: int, seed: int = 0, *, limits: bool = True) -> None:
        self.n_envs, self.random, self.t, self.limits = n_envs, np.random.default_rng(seed), 0, limits

    def step(self) -> dict[str, Any]:
        self.t += 1
        lead = (self.n_envs, A)
        ended = self.random.random(self.n_envs) < 0.15
        return {
            "obs": self.random.normal(size=(*lead, *OBS)).astype(np.float32),
            "obs_next": self.random.normal(size=(*lead, *OBS)).astype(np.float32),
            "actions": self.random.integers(0, DIM, lead).astype(np.float32),
            "actions_onehot": np.eye(DIM, dtype=np.float32)[self.random.integers(0, DIM, lead)],
            "act_mean": self.random.random((self.n_envs, DIM)).astype(np.float32),
            "rewards": self.random.normal(size=(*lead, 1)).astype(np.float32),
            "values": self.random.normal(size=(*lead, 1)).astype(np.float32),
            "log_pi_old": self.random.normal(size=lead).astype(np.float32),
            "terminals": np.repeat(ended[:, None], A, axis=1) | (self.random.random(lead) < 0.05),
            "truncations": (self.random.random(self.n_envs) < 0.1) & self.limits,
            "agent_mask": self.random.random(lead) < 0.8,
            "state": self.random.normal(size=(self.n_envs, *STATE)).astype(np.float32),
            "state_next": self.random.normal(size=(self.n_envs, *STATE)).astype(np.float32),
        }


def plain_targets(path: list[dict[str, Any]], last: Any, kind: str) -> tuple[list[Any], list[Any]]:
    """Returns and advantages of a path ``[T][A]``, backwards from the definitions."""
    returns: list[Any] = [None] * len(path)
    advantages: list[Any] = [None] * len(path)
    after_value, after_gae, after_return = last, np.zeros(A), last
    for t in reversed(range(len(path))):
        reward, value = path[t]["rewards"][:, 0].astype(float), path[t]["value"].astype(float)
        going = 1.0 - path[t]["terminals"]
        if kind == "gae":
            after_gae = reward + going * GAMMA * after_value - value + going * GAMMA * LAM * after_gae
            advantages[t], returns[t] = after_gae, after_gae + value
        elif kind == "sums":
            after_return = reward + going * GAMMA * after_return
            returns[t], advantages[t] = after_return, after_return - value
        else:
            after_return = reward + going * GAMMA * ((1 - LAM) * after_value + LAM * after_return)
            returns[t], advantages[t] = after_return, np.zeros(A)
        after_value = value
    return returns, advantages


def make(cls: Any, n_envs: int = 2, size: int = 24, *, use_gae: bool = True, state: Any = STATE, **more: Any) -> Any:
    extra = {"dim_act": DIM, "td_lambda": LAM, "prob_space": (DIM,), "max_episode_length": 7} | more
    rew = (1,) if "RNN" in cls.__name__ else (A, 1)
    return cls(A, state, OBS, ACT, rew, (A,), n_envs, size, use_gae, True, GAMMA, LAM, **extra)


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
    with pytest.raises(rc.errors.NotEnoughRows):
        buffer.sample()


def episodes_world(buffer: Any, world: World, rounds: int) -> list[dict[str, Any]]:
    """Plays rounds in which every environment plays one episode, and says what should have been stored, in order."""
    n_envs, longest = buffer.n_envs, buffer.max_eps_len
    stored = []
    for _ in range(rounds):
        lengths = world.random.integers(1, longest + 1, n_envs)
        steps: list[list[dict[str, Any]]] = [[] for _ in range(n_envs)]
        filled = np.zeros((n_envs, longest, 1), bool)
        finished: dict[int, dict[str, Any]] = {}
        for t in range(int(lengths.max())):
            step = world.step()
            step["terminals"][:] = False
            step["terminals"][lengths == t + 1] = world.random.random() < 0.5
            step["avail_actions"] = world.random.random((n_envs, A, DIM)) < 0.7
            actions = {"actions_n": step["actions"], "values": step["values"], "log_pi": step["log_pi_old"]}
            actions["act_n_onehot"] = step["actions_onehot"]
            times = np.minimum(np.full(n_envs, t), longest - 1)
            filled[lengths > t, t] = True
            state = step["state"] if buffer.state_space is not None else None
            data = (step["obs"], actions, state, step["rewards"], step["terminals"], step["avail_actions"])
            buffer.store_transitions(t if t % 2 else list(times), *data)
            for env in range(n_envs):
                if lengths[env] <= t:
                    continue
                steps[env].append({key: value[env] for key, value in step.items()})
                if lengths[env] == t + 1:
                    after = world.step()
                    avail = world.random.random((n_envs, A, DIM)) < 0.7
                    last = world.random.normal(size=(A, 1)).astype(np.float32)
                    more = {} if isinstance(buffer, xm.MARL_OffPolicyBuffer_RNN) else {"value_next": last}
                    seen_state = after["state"] if buffer.state_space is not None else None
                    buffer.finish_path(env, t + 1, after["obs"], seen_state, avail, filled, **more)
                    finished[env] = {
                        "steps": steps[env],
                        "obs": after["obs"][env],
                        "state": after["state"][env],
                        "avail_actions": avail[env],
                        "last": last[:, 0].astype(float),
                    }
        buffer.store_episodes()
        stored += [finished[env] for env in range(n_envs)]
    return stored


def check_episode(samples: dict[str, Any], k: int, episode: dict[str, Any]) -> None:
    length = len(episode["steps"])
    for key in set(samples) - {"returns", "advantages", "filled"}:
        agents = key not in ("terminals", "state")
        rows = samples[key][k].swapaxes(0, 1) if agents else samples[key][k]
        plain = [step[key] for step in episode["steps"]]
        if key == "values":
            plain = [value.reshape(rows.shape[1:]) for value in plain]
        if key in ("obs", "state", "avail_actions"):
            plain.append(episode[key])
        np.testing.assert_array_equal(rows[: len(plain)], np.stack(plain), err_msg=key)
        rest = rows[len(plain) :]
        assert rest.all() if key == "avail_actions" else not rest.any()
    assert samples["filled"][k, :, 0].tolist() == [t < length for t in range(samples["filled"].shape[1])]


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


# ---- what XuanCe's documents get wrong, row by row -----------------------------------------------------------------


def rollout(cls: Any = xm.MARL_OnPolicyBuffer, **options: Any) -> tuple[Any, World]:
    return make(cls, **options), World(options.get("n_envs", 2), limits=False)


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


def mean_field(n_size: int = 4, batch: int = 50) -> Any:
    return xm.MeanField_OffPolicyBuffer(1, None, (1,), (), (1,), (1, 1), (1,), 1, n_size, batch, seed=0)


def mean_step(mean: float, *, done: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "obs": np.zeros((1, 1, 1)),
        "obs_next": np.zeros((1, 1, 1)),
        "actions": np.zeros((1, 1)),
        "rewards": np.zeros((1, 1, 1)),
        "terminals": np.array([[done]]),
        "act_mean": np.array([[mean]]),
        **more,
    }


def pairs_of(buffer: Any) -> dict[float, float]:
    samples = buffer.sample()
    return dict(zip(samples["act_mean"].ravel().tolist(), samples["act_mean_next"].ravel().tolist(), strict=True))


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


def rnn(**options: Any) -> Any:
    return make(xm.MARL_OnPolicyBuffer_RNN, size=4, **options)


def rnn_step(world: World) -> tuple[Any, ...]:
    step = world.step()
    actions = {"actions_n": step["actions"], "values": step["values"], "log_pi": step["log_pi_old"]}
    return (
        step["obs"],
        actions,
        step["state"],
        step["rewards"],
        step["terminals"],
        np.ones((world.n_envs, A, DIM), bool),
    )


def test_a_list_of_times_writes_the_cell_of_every_environment() -> None:
    buffer, world = rnn(n_envs=3), World(3)
    data = rnn_step(world)
    buffer.store_transitions([0, 4, 2], *data)
    for env, t in enumerate([0, 4, 2]):
        np.testing.assert_array_equal(buffer.episode_data["obs"][env, :, t], data[0][env])
        np.testing.assert_array_equal(buffer.episode_data["terminals"][env, t], data[4][env])
        others = np.arange(8) != t
        assert not buffer.episode_data["obs"][env][:, others].any()
    with pytest.raises(rc.errors.OptionError, match=r"^t_envs must be one whole number or 3, got \[0, 1\]"):
        buffer.store_transitions([0, 1], *data)
    with pytest.raises(rc.errors.OptionError, match=r"^t_envs must be from 0 to 6, got 7"):
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
    with pytest.raises(
        rc.errors.StepError, match=r"^store_episodes must be called before environment 0 begins another"
    ):
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
    message = "^store must not be called on a buffer of episodes, got a step. Use store_transitions, finish_path and"
    with pytest.raises(rc.errors.OptionError, match=message):
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
        with pytest.raises(rc.errors.StepError) as caught:
            buffer.store(partial)
        assert [problem.name for problem in caught.value.problems] == ["obs", "terminals"]
        assert buffer.size == 0
        assert not buffer.data["actions"].any()
        del partial["agent_mask"]
        buffer.store(partial | {"obs": step["obs"], "terminals": step["terminals"]})
        assert buffer.data["agent_mask"][:, 0].all()
        for key in ("obs", "rewards", "state", "terminals"):
            with pytest.raises(rc.errors.StepError, match=f"^{key} must"):
                buffer.store(step | {key: step[key][0]})
        assert buffer.size == 1


def test_sizes_that_do_not_divide_are_refused_with_the_nearest() -> None:
    message = r"^buffer_size must be a multiple of n_envs \(4\), got 10. The nearest are 8 and 12.$"
    with pytest.raises(rc.errors.OptionError, match=message):
        make(xm.MARL_OnPolicyBuffer, 4, 10)
    with pytest.raises(rc.errors.OptionError, match=message):
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


def test_what_finish_path_refuses() -> None:
    buffer, world = rollout()
    buffer.store(world.step())
    with pytest.raises(rc.errors.OptionError, match=r"^i_env must be a whole number from 0 to 1, got 2"):
        buffer.finish_path(np.zeros((A, 1)), 2)
    with pytest.raises(rc.errors.OptionError, match=r"^value must be one number or one for each of 3 agents, got"):
        buffer.finish_path(np.zeros(2), 0)
    with pytest.raises(rc.errors.NotEnoughRows, match=r"^buffer must be full to be sampled, got 1 of 12 steps"):
        buffer.sample(np.arange(2))
    episodes = rnn(n_envs=2)
    with pytest.raises(rc.errors.NotEnoughRows, match=r"^buffer must be full to be sampled, got 0 of 4 episodes"):
        episodes.sample(np.arange(2))
    data = rnn_step(World(2))
    filled = np.zeros((2, 7, 1), bool)
    with pytest.raises(rc.errors.OptionError, match=r"^next_t must be a whole number from 1 to 7, got 8"):
        episodes.finish_path(0, 8, data[0], data[2], data[5], filled)
    with pytest.raises(rc.errors.OptionError, match=r"^terminal_data must be the next observations, states"):
        episodes.finish_path(0, 2, data[0])
    with pytest.raises(rc.errors.OptionError, match=r"^next_t must be at most the 0 steps of environment 0 that were"):
        episodes.finish_path(0, 2, data[0], data[2], data[5], filled)
    with pytest.raises(rc.errors.StepError, match=r"^rewards must have shape \[2, 3, 1\], got \[2, 3\]"):
        episodes.store_transitions(0, *data[:3], data[3][..., 0], *data[4:])
    assert not episodes.episode_data["obs"].any()
    for t in range(2):
        episodes.store_transitions(t, *data)
    with pytest.raises(rc.errors.StepError, match=r"^obs of environment 0 must have shape \[3, 4\], got \[4\]"):
        episodes.finish_path(0, 2, data[0][:, 0], data[2], data[5], filled)
    with pytest.raises(rc.errors.StepError, match=r"^state of environment 0 must be given, got nothing"):
        episodes.finish_path(0, 2, data[0], None, data[5], filled)
    with pytest.raises(rc.errors.StepError) as caught:
        episodes.store_transitions(2, data[0], {}, *data[2:])
    assert [problem.name for problem in caught.value.problems] == ["actions_n", "values"]
    full = make(xm.MARL_OnPolicyBuffer, 1, 8)
    for _ in range(8):
        full.store(World(1, limits=False).step())
    with pytest.raises(rc.errors.OptionError, match=r"^indexes must be whole numbers from 0 to 7, got"):
        full.sample(np.zeros(0, int))
    with pytest.raises(rc.errors.OptionError, match=r"^done_space must hold one flag, or one for each of 3 agents"):
        xm.MARL_OnPolicyBuffer(A, None, OBS, ACT, (A, 1), (2,), 1, 4, True, True, 0.9, 0.9)
    with pytest.raises(rc.errors.OptionError, match=r"^dim_act must be given as a keyword argument, got nothing"):
        xm.MARL_OffPolicyBuffer_RNN(A, STATE, OBS, ACT, (1,), (A,), 2, 4, 2, max_episode_length=7)
    with pytest.raises(rc.errors.OptionError, match=r"^rew_space must hold one number, or one for each of 3 agents"):
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
        with pytest.raises(rc.errors.StepError, match=r"^finish_path must be called for environment 0 after its trunc"):
            buffer.store(world.step())
        assert buffer.size == 1
        buffer.finish_path(0.0, 0)
        buffer.store(world.step())


def test_algorithms_without_log_probabilities_may_leave_them_out() -> None:
    for cls in (xm.MARL_OnPolicyBuffer, xm.COMA_Buffer):
        buffer, world = rollout(cls)
        for absent in ({"log_pi_old": None}, {}):
            step = {key: value for key, value in world.step().items() if key != "log_pi_old"}
            buffer.store(step | absent)
        assert buffer.size == 2
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
    for place, wrong, message in (
        (0, np.full((1, 1, 2), 0.9), r"^obs must be whole numbers \(uint8\), got float64"),
        (3, np.full((1, 1, 1), 1e300), r"^rewards must fit float32, got 1e\+300"),
        (4, np.full((1, 1), 0.3), r"^terminals must be 0 or 1, got 0.3"),
        (5, np.full((1, 1, 2), 0.5), r"^avail_actions must be 0 or 1, got 0.5"),
    ):
        with pytest.raises(rc.errors.StepError, match=message):
            buffer.store_transitions(1, *good[:place], wrong, *good[place + 1 :])
    filled = np.arange(3)[None, :, None] < 1
    with pytest.raises(rc.errors.StepError, match=r"^obs of environment 0 must fit uint8"):
        buffer.finish_path(0, 1, np.full((1, 1, 2), 300), None, good[5], filled)
    with pytest.raises(rc.errors.StepError, match=r"^filled of environment 0 must be 0 or 1, got 7"):
        buffer.finish_path(0, 1, good[0], None, good[5], filled * 7)
    buffer.store_episodes()
    assert buffer.size == 0
    buffer.finish_path(0, 1, good[0], None, good[5], filled.astype(float))
    buffer.store_episodes()
    assert buffer.size == 1


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
