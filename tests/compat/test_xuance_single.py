"""XuanCe's memories for one agent, driven as its agents do and compared with plain computations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relive as rl
from relive.compat.xuance.v1_1 import memory_tools as xm
from xuance_single_world import ACT, BOX, IMAGE, NESTED, World


def plain_returns(
    rews: list[float], values: list[float], dones: list[bool], last: float, *, gae: bool, gamma: float, lam: float
) -> tuple[list[float], list[float]]:
    """Straight from the definitions, one step after the other."""
    returns, advantages = [], []
    for t in range(len(rews)):
        if gae:
            total, factor = 0.0, 1.0
            for k in range(t, len(rews)):
                after = values[k + 1] if k + 1 < len(values) else last
                total += factor * (rews[k] + gamma * (0.0 if dones[k] else after) - values[k])
                factor *= gamma * lam
                if dones[k]:
                    break
            advantages.append(total)
            returns.append(total + values[t])
        else:
            total, factor = 0.0, 1.0
            for k in range(t, len(rews)):
                total += factor * rews[k]
                factor *= gamma
                if dones[k]:
                    break
            else:
                total += factor * last
            returns.append(total)
            advantages.append(total - values[t])
    return returns, advantages


@pytest.mark.parametrize("use_gae", [True, False])
@pytest.mark.parametrize("cls", [xm.DummyOnPolicyBuffer, xm.DummyOnPolicyBuffer_Atari])
def test_on_policy_buffers_as_an_agent_drives_them(cls: Any, use_gae: bool) -> None:
    n_envs, n_size, gamma, lam = 3, 20, 0.9, 0.8
    atari = cls is xm.DummyOnPolicyBuffer_Atari
    space = IMAGE if atari else BOX
    shape = {"old_logp": (), "state": (2,)}
    buffer = cls(space, ACT, shape, n_envs, n_size, use_gae, True, gamma, lam)
    world = World(n_envs)
    for _ in range(4):  # rollouts
        told: list[list[dict[str, Any]]] = [[] for _ in range(n_envs)]
        expected: list[list[tuple[float, float]]] = [[] for _ in range(n_envs)]

        def finish(env: int, last: float, told: Any = told, expected: Any = expected) -> None:
            path = told[env][len(expected[env]) :]
            columns = [[float(step[key]) for step in path] for key in ("rews", "value")]
            dones = [bool(step["terminals"]) for step in path]
            returns, advantages = plain_returns(*columns, dones, last, gae=use_gae, gamma=gamma, lam=lam)
            expected[env] += list(zip(returns, advantages, strict=True))
            buffer.finish_path(last, env)

        while not buffer.full:
            step = world.step()
            obs = np.full((n_envs, 8, 8, 4), world.t % 256, np.uint8) if atari else step["obs"]
            aux = {"old_logp": step["rews"] * 2, "state": step["obs"][:, :2]}
            if world.t % 2:
                buffer.store(obs, step["acts"], step["rews"], step["value"], step["terminals"], aux)
            else:
                buffer.store(
                    obs, step["acts"], step["rews"], step["value"], step["terminals"], aux, step["truncations"]
                )
            for env in range(n_envs):
                told[env].append({key: value[env] for key, value in step.items()} | {"image": world.t % 256})
                if step["terminals"][env]:
                    finish(env, 0.0)
                elif step["truncations"][env]:
                    finish(env, float(world.random.normal()))
        assert buffer.ptr == 0
        assert buffer.size == n_size
        for env in range(n_envs):
            if len(expected[env]) < n_size:
                finish(env, float(world.random.normal()))
        np.testing.assert_allclose(buffer.returns, [[r for r, _ in rows] for rows in expected], rtol=2e-5, atol=1e-5)
        np.testing.assert_allclose(buffer.advantages, [[a for _, a in rows] for rows in expected], rtol=2e-5, atol=1e-5)
        indexes = world.random.permutation(n_envs * n_size)
        for start in range(0, len(indexes), 25):
            chosen = indexes[start : start + 25]
            obs, acts, returns, values, advantages, aux = buffer.sample(chosen)
            pairs = [divmod(int(index), n_size) for index in chosen]
            steps = [told[env][slot] for env, slot in pairs]
            assert acts.tolist() == [step["acts"] for step in steps]
            if atari:
                assert obs.dtype == np.uint8
                assert obs[:, 0, 0, 0].tolist() == [step["image"] for step in steps]
            else:
                np.testing.assert_array_equal(obs, [step["obs"] for step in steps])
            np.testing.assert_array_equal(values, [step["value"] for step in steps])
            np.testing.assert_array_equal(aux["old_logp"], [step["rews"] * 2 for step in steps])
            np.testing.assert_array_equal(aux["state"], [step["obs"][:2] for step in steps])
            np.testing.assert_allclose(returns, [expected[e][s][0] for e, s in pairs], rtol=2e-5, atol=1e-5)
            plain = np.array([expected[e][s][1] for e, s in pairs])
            np.testing.assert_allclose(advantages, (plain - plain.mean()) / (plain.std() + 1e-8), rtol=1e-3, atol=1e-4)
        buffer.clear()
        assert (buffer.ptr, buffer.size, buffer.full) == (0, 0, False)
        assert not buffer.observations.any()
        assert not buffer.returns.any()


@pytest.mark.parametrize("cls", [xm.DummyOffPolicyBuffer, xm.DummyOffPolicyBuffer_Atari, xm.PerOffPolicyBuffer])
def test_off_policy_buffers_as_an_agent_drives_them(cls: Any) -> None:
    n_envs, n_size, batch_size = 4, 16, 24
    atari = cls is xm.DummyOffPolicyBuffer_Atari
    prioritised = cls is xm.PerOffPolicyBuffer
    buffer = cls(IMAGE if atari else BOX, ACT, {"note": ()}, n_envs, n_size, batch_size, seed=0)
    world = World(n_envs)
    told: list[dict[str, Any]] = []
    for _ in range(45):  # almost three times round
        step = world.step()
        image = np.zeros((n_envs, 8, 8, 4), np.uint8)
        image[:] = (world.t * 4 + np.arange(n_envs))[:, None, None, None] % 256
        seen, after = (image, image + 1) if atari else (step["obs"], step["next_obs"])
        flags = {"truncations": step["truncations"]} if world.t % 2 else {}
        note = {"note": step["rews"] + 1} if world.t % 3 else None
        buffer.store(seen, step["acts"], step["rews"], step["terminals"], after, note, **flags)
        told.append(step | {"seen": seen, "after": after, "note": step["rews"] + 1 if note else np.zeros(n_envs)})
        told = told[-n_size:]
        assert buffer.size == len(told)
        assert buffer.ptr == world.t % n_size
        newest = told[-1]
        np.testing.assert_array_equal(buffer.observations[:, buffer.ptr - 1], newest["seen"])
        np.testing.assert_array_equal(buffer.next_observations[:, buffer.ptr - 1], newest["after"])
        np.testing.assert_array_equal(buffer.rewards[:, buffer.ptr - 1], newest["rews"])
        np.testing.assert_array_equal(buffer.terminals[:, buffer.ptr - 1], newest["terminals"])
        expected = newest["truncations"] if flags else np.zeros(n_envs, bool)
        np.testing.assert_array_equal(buffer.truncations[:, buffer.ptr - 1], expected)
        samples = buffer.sample(0.4) if prioritised else buffer.sample()
        obs, acts, rews, terminals, next_obs = samples[:5]
        assert len(obs) == batch_size
        assert terminals.dtype == np.float32
        for k in range(batch_size):
            where = [(t, env) for t, each in enumerate(told) for env in range(n_envs) if each["rews"][env] == rews[k]]
            assert len(where) == 1
            t, env = where[0]
            np.testing.assert_array_equal(obs[k], told[t]["seen"][env])
            np.testing.assert_array_equal(next_obs[k], told[t]["after"][env])
            assert acts[k] == told[t]["acts"][env]
            assert terminals[k] == told[t]["terminals"][env]
            assert samples.auxiliary_infos["note"][k] == np.float32(told[t]["note"][env])
        if prioritised:
            weights, steps = samples[5:]
            assert weights.shape == steps.shape == (n_envs, batch_size // n_envs)
            np.testing.assert_array_equal(buffer.rewards.ravel()[steps.ravel()], rews)
            buffer.update_priorities(steps, world.random.normal(size=steps.shape))
    assert buffer.full


def test_recurrent_buffer_as_an_agent_drives_it() -> None:
    lookup, longest, n_size = 5, 12, 7
    buffer = xm.RecurrentOffPolicyBuffer(BOX, ACT, None, 2, n_size, 30, longest, lookup, seed=3)
    random = np.random.default_rng(0)
    told: list[xm.EpisodeBuffer] = []
    for number in range(40):
        episode = xm.EpisodeBuffer()
        episode.obs.append(np.array([number, 0, 0], np.float32))
        length = int(random.integers(1, longest + 1))
        for t in range(length):
            obs = np.array([number, t + 1, 0], np.float32)
            episode.put([obs, int(random.integers(5)), float(number * 100 + t), bool(t == length - 1 and number % 2)])
        buffer.store(episode)
        told = [*told, episode][-n_size:]
        assert buffer.size == len(told)
        assert buffer.ptr == (number + 1) % n_size
        assert buffer.full == (len(told) == n_size)
        assert buffer.can_sample() == (len(told) >= 30)
        assert [len(each) for each in buffer.memory] == [len(each) for each in told]
        np.testing.assert_array_equal(buffer.memory[0].obs, told[0].obs)
        assert buffer.memory[-1].done == episode.done
        samples = buffer.sample()
        obs, acts, rews, done = samples
        assert obs.shape == (30, lookup + 1, 3)
        assert acts.shape == rews.shape == done.shape == samples.mask.shape == (30, lookup)
        for k in range(30):
            source = told[[int(each.obs[0][0]) for each in told].index(int(obs[k, 0, 0]))]
            start, steps = int(obs[k, 0, 1]), int(samples.mask[k].sum())
            assert steps == min(lookup, len(source))
            plain = source.sample(steps, start)
            np.testing.assert_array_equal(obs[k, : steps + 1], plain["obs"])
            np.testing.assert_array_equal(acts[k, :steps], plain["acts"])
            np.testing.assert_array_equal(rews[k, :steps], plain["rews"])
            np.testing.assert_array_equal(done[k, :steps], plain["done"])
            assert not obs[k, steps + 1 :].any()
            assert not rews[k, steps:].any()
    buffer.clear()
    assert (buffer.size, buffer.ptr, len(buffer.memory)) == (0, 0, 0)
    with pytest.raises(rl.errors.NotEnoughRows):
        buffer.sample()
    buffer.store(told[0])
    assert len(buffer.memory) == 1


def test_nested_spaces_work() -> None:
    for cls, more in ((xm.DummyOnPolicyBuffer, ()), (xm.DummyOffPolicyBuffer, (6,)), (xm.PerOffPolicyBuffer, (6,))):
        buffer = cls(NESTED, NESTED, None, 2, 4, *more)
        for t in range(4):
            value = {
                "camera": np.full((2, 2, 2), t, np.uint8),
                "joints": (np.full((2, 3), t / 4, np.float32), np.full(2, t % 5)),
            }
            row, flags = np.arange(2, dtype=np.float32), np.zeros(2, bool)
            if more:
                buffer.store(value, value, row, flags, value)
            else:
                buffer.store(value, value, row, row, flags)
        assert buffer.observations["camera"].shape == (2, 4, 2, 2)
        assert buffer.observations["joints"][0].shape == (2, 4, 3)
        samples = {
            xm.DummyOnPolicyBuffer: lambda b: b.sample(np.arange(6)),
            xm.PerOffPolicyBuffer: lambda b: b.sample(1.0),
        }
        obs = samples.get(cls, lambda b: b.sample())(buffer)[0]
        assert isinstance(obs["joints"], tuple)
        np.testing.assert_array_equal(obs["camera"][:, 0, 0], obs["joints"][0][:, 0] * 4)
        np.testing.assert_array_equal(obs["camera"][:, 0, 0], obs["joints"][1])
    recurrent = xm.RecurrentOffPolicyBuffer(NESTED, ACT, None, 1, 3, 4, 5, 2)
    episode = xm.EpisodeBuffer()
    for t in range(4):
        seen = {"camera": np.full((2, 2), t, np.uint8), "joints": (np.zeros(3, np.float32), t)}
        if t == 0:
            episode.obs.append(seen)
        else:
            episode.put([seen, 1, 0.0, False])
    recurrent.store(episode)
    obs = recurrent.sample()[0]
    assert obs["camera"].shape == (4, 3, 2, 2)
    np.testing.assert_array_equal(obs["camera"][:, :, 0, 0], obs["joints"][1])
    assert recurrent.memory[0].obs[2]["joints"][1] == 2
