"""Gymnasium's environments as ours: nothing is stored that did not happen, and final observations are true."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import relive as rl
from counting_world import Counter, check_counts
from refusals import refused
from relive import envs
from relive.envs.adapters import FromGymnasium, FromGymnasiumVector, SyncEnvs
from relive.errors import EnvError, OptionError


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_way_to_begin_anew_stores_the_same_steps(mode: AutoresetMode) -> None:
    lengths = [2, 3, 5]
    envs = SyncVectorEnv([lambda n=n: Counter(n) for n in lengths], autoreset_mode=mode)  # type: ignore[misc]
    env = FromGymnasiumVector(envs)
    memory = rl.Memory(env.schema, capacity=3 * 200, lanes=3, seed=0)
    seen = env.reset(seed=0)
    taken = np.zeros(3, int)
    ends = np.zeros(3, int)
    for _ in range(60):
        before = seen["obs"].copy()
        step = env.step(np.full((3, 1), 2))
        memory.append(**step.row)
        lanes = step.row.get("lanes", np.arange(3))
        taken[lanes] += 1
        ends += step.ended
        np.testing.assert_array_equal(step.row["obs"], before[lanes])
        seen = step.obs
    assert len(memory) == taken.sum()
    episodes = memory.episodes
    whole = episodes.terminated | episodes.truncated
    assert whole.sum() == ends.sum() > 30
    np.testing.assert_array_equal(episodes.length[whole], np.array(lengths)[episodes.lane[whole]])
    np.testing.assert_array_equal(episodes.terminated[whole], episodes.id[whole] % 2 == 0)
    batch = memory.sample(500)
    check_counts(batch)
    assert batch.truncated.any()
    assert batch.terminated.any()
    np.testing.assert_array_equal(batch.discount == 0, batch.terminated)
    expected = 60 if mode is not AutoresetMode.NEXT_STEP else 60 - np.array([60 // (n + 1) for n in lengths])
    np.testing.assert_array_equal(taken, expected)
    env.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_nested_spaces(mode: AutoresetMode) -> None:
    envs = SyncVectorEnv([lambda: Counter(3, nested=True)] * 2, autoreset_mode=mode)
    env = FromGymnasiumVector(envs)
    memory = rl.Memory(env.schema, capacity=200, lanes=2, seed=0)
    seen = env.reset(seed=0)
    assert {key: value.shape for key, value in seen.items()} == {
        "obs/at": (2, 1, 2),
        "obs/pair/0": (2, 1),
        "obs/pair/1": (2, 1, 2),
    }
    for _ in range(30):
        step = env.step({"action/0": np.ones((2, 1), int), "action/1": np.zeros((2, 1, 2), np.float32)})
        memory.append(**step.row)
    batch = memory.sample(200)
    at, later = batch.obs.at[:, 0], batch.next_obs.at[:, 0]
    np.testing.assert_array_equal(later[:, 1], at[:, 1] + 1)
    np.testing.assert_array_equal(later[:, 0], at[:, 0])
    np.testing.assert_array_equal(batch.next_obs.pair["1"][:, 0], later * 10)


def test_real_ones() -> None:
    env = rl.envs.make("gymnasium:CartPole-v1", num_envs=2, render_mode="rgb_array")
    assert env.max_episode_steps == 500
    assert env.name == "CartPole-v1"
    env.reset(seed=0)
    for _ in range(60):
        step = env.step(np.ones((2, 1), int))
    assert step.obs["obs"].shape == (2, 1, 4)
    assert env.render(1).ndim == 3
    env.close()
    with refused(rl.errors.OptionError, "render_mode", got="None"):
        FromGymnasium(Counter()).render()


def test_refusals() -> None:
    envs = SyncVectorEnv([Counter] * 2)
    env = FromGymnasiumVector(envs)
    with refused(rl.errors.OptionError, "reset", got="step"):
        env.step(np.ones((2, 1), int))
    env.reset()
    with refused(rl.errors.OptionError, "action", got="[2]"):
        env.step(np.ones(2, int))
    envs.metadata = {}
    with refused(rl.errors.OptionError, "envs", got="None"):
        FromGymnasiumVector(envs)
    with refused(rl.errors.OptionError, "environment 1"):
        SyncEnvs([FromGymnasium(Counter()), FromGymnasium(Counter(nested=True))])
    with refused(rl.errors.OptionError, "environments", got="none"):
        SyncEnvs([])


def test_those_made_as_a_whole_take_one_seed() -> None:
    env = FromGymnasiumVector(gymnasium.make_vec("CartPole-v1", num_envs=3))
    first = env.reset(seed=0)["obs"]
    np.testing.assert_array_equal(env.reset(seed=0)["obs"], first)
    assert (env.reset(seed=1)["obs"] != first).any()
    with refused(rl.errors.OptionError, "seed", got="a list"):
        env.reset(seed=[1, 2, 3])


def test_infos_are_about_the_episode_that_ended() -> None:
    for mode in AutoresetMode:
        env = FromGymnasiumVector(SyncVectorEnv([lambda: Counter(2), lambda: Counter(3)], autoreset_mode=mode))
        env.reset()
        env.step(np.ones((2, 1), int))
        step = env.step(np.ones((2, 1), int))
        np.testing.assert_array_equal(step.info["clock"], [2, 2])
        assert set(step.info) == {"clock"}


@pytest.mark.parametrize(
    ("nested", "action", "about"),
    [
        (False, np.ones((2, 1)), "action"),
        (False, np.zeros((2, 1), int), "action"),
        (False, np.full((2, 2), 2), "action"),
        (False, {"action": np.ones((2, 1), int), "b": 1}, "action"),
        (True, {"action/0": np.ones((2, 1), int)}, "action"),
        (
            True,
            {"action/0": np.ones((2, 1), int), "action/1": np.full((2, 1, 2), np.nan)},
            "action/1",
        ),
    ],
)
def test_actions_are_looked_at_before_anything_steps(nested: bool, action: Any, about: str) -> None:
    for env in (
        SyncEnvs([FromGymnasium(Counter(nested=nested)) for _ in range(2)]),
        FromGymnasiumVector(SyncVectorEnv([lambda: Counter(nested=nested)] * 2)),
    ):
        env.reset()
        with refused(rl.errors.OptionError, about):
            env.step(action)
        good: Any = np.ones((2, 1), int)
        if nested:
            good = {"action/0": good, "action/1": np.zeros((2, 1, 2), np.float32)}
        key = "obs/at" if nested else "obs"
        assert (env.step(good).obs[key][:, 0, 1] == 1).all()  # nobody had moved


def test_both_flags_at_once_is_an_end() -> None:
    class Both(Counter):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward, terminated or truncated, terminated or truncated, info

    for env in (SyncEnvs([FromGymnasium(Both(1))]), FromGymnasiumVector(SyncVectorEnv([lambda: Both(1)]))):
        env.reset()
        step = env.step(np.ones((1, 1), int))
        assert step.terminated[0]
        assert not step.truncated[0]


def test_a_reset_after_an_end_leaves_nothing_to_ignore() -> None:
    env = FromGymnasiumVector(SyncVectorEnv([lambda: Counter(1)]))
    env.reset()
    assert env.step(np.ones((1, 1), int)).ended[0]
    env.reset()
    assert "lanes" not in env.step(np.ones((1, 1), int)).row


def test_rows_are_ones_own() -> None:
    action = np.ones((2, 1), int)
    for env in (SyncEnvs([FromGymnasium(Counter())] * 2), FromGymnasiumVector(SyncVectorEnv([Counter] * 2))):
        seen = env.reset()
        seen["more"] = 1  # type: ignore[assignment]
        step = env.step(action)
        action[:] = 3
        assert (step.row["action"] == 1).all()
        assert "more" not in step.row
        action[:] = 1


def test_final_observations_as_a_dict_of_arrays() -> None:
    class Whole(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            if "final_obs" in info:
                last = [one if one is not None else self.single_observation_space.sample() for one in info["final_obs"]]
                info["final_obs"] = {
                    "at": np.stack([one["at"] for one in last]),
                    "pair": tuple(np.stack([one["pair"][i] for one in last]) for i in range(2)),
                }
            return (*rest, info)

    env = FromGymnasiumVector(Whole([lambda: Counter(2, nested=True)] * 2, autoreset_mode=AutoresetMode.SAME_STEP))
    env.reset()
    action = {"action/0": np.ones((2, 1), int), "action/1": np.zeros((2, 1, 2), np.float32)}
    env.step(action)
    step = env.step(action)
    np.testing.assert_array_equal(step.row["final_obs/at"][:, 0], [[0, 2], [0, 2]])
    np.testing.assert_array_equal(step.row["final_obs/pair/1"][:, 0], [[0, 20], [0, 20]])


def test_names_of_gymnasium_need_no_prefix() -> None:
    env = envs.make("CartPole-v1", num_envs=2)
    assert env.name == "CartPole-v1"
    with refused(OptionError, "environment", got="'CartPol-v1'"):
        envs.make("CartPol-v1")


def test_masks_of_infos_are_available_actions() -> None:
    env = envs.make("Taxi-v4", num_envs=3)
    assert env.groups[0].avail
    obs = env.reset(seed=1)
    judge = gymnasium.make("Taxi-v4").unwrapped
    rng = np.random.default_rng(0)
    for _ in range(300):
        allowed = obs["avail_actions"]
        wanted = [judge.action_mask(int(place)) for place in obs["obs"].ravel()]  # type: ignore[attr-defined]
        np.testing.assert_array_equal(allowed[:, 0], np.array(wanted) > 0)
        step = env.step((allowed * rng.random(allowed.shape)).argmax(axis=2))
        np.testing.assert_array_equal(step.row["avail_actions"], allowed)
        obs = step.obs
    assert not envs.make("CartPole-v1").groups[0].avail


def test_a_mask_that_stays_away_is_named() -> None:
    class Forgetful(gymnasium.Env[Any, Any]):
        observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.zeros(1, np.float32), {"action_mask": np.ones(2, np.int8)}

        def step(self, action: Any) -> Any:
            return np.zeros(1, np.float32), 0.0, False, False, {}

    env = SyncEnvs([FromGymnasium(Forgetful())])
    env.reset()
    with refused(EnvError, "info of Forgetful"):
        env.step([[0]])
