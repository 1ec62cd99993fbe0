"""Gymnasium's environments with many agents: level-based foraging and the robot warehouse."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from refusals import refused
from relive import Memory, envs
from relive.envs.adapters import FromGymnasiumAgents
from relive.errors import EnvError


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "numbers", "actions", "limit"),
    [("lbforaging:Foraging-8x8-2p-2f-coop-v3", 12, 6, 50), ("rware:rware-tiny-2ag-v2", 71, 5, 500)],
)
def test_it_plays_as_the_package_does(name: str, numbers: int, actions: int, limit: int) -> None:
    """Beside the environment itself, with the same seed and actions."""
    env = envs.make(name, num_envs=2)
    (group,) = env.groups
    assert (len(group), group.obs_space.shape, group.action_space.n) == (2, (numbers,), actions)
    assert env.max_episode_steps == limit
    alone = gymnasium.make(name, disable_env_checker=True)
    memory = Memory(env.schema, capacity=400, lanes=2, seed=0)
    obs = env.reset(seed=[5, 6])["obs"]
    theirs, _ = alone.reset(seed=5)
    random = np.random.default_rng(0)
    for _ in range(60):
        np.testing.assert_array_equal(obs[0], np.stack(theirs))
        action = random.integers(0, actions, (2, 2))
        step = env.step(action)
        memory.append(**step.row)
        theirs, reward, terminated, truncated, _ = alone.step(tuple(int(a) for a in action[0]))
        np.testing.assert_array_equal(step.row["reward"][0], np.asarray(reward, np.float32))
        assert step.ended[0] == (terminated or truncated)
        if step.ended[0]:
            np.testing.assert_array_equal(step.row["final_obs"][0], np.stack(theirs))
            break
        obs = step.obs["obs"]
    assert len(memory) > 50


class TwoKinds(gymnasium.Env[Any, Any]):
    """A runner and two who watch, whose spaces differ."""

    n_agents = 3
    max_steps = 4
    observation_space: Any = spaces.Tuple([spaces.Box(-9, 9, (2,)), spaces.Discrete(3), spaces.Discrete(3)])
    action_space: Any = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(4), spaces.Discrete(4)])
    rewards: Any = (1.0, 2.0, 3.0)

    def reset(self, **_: Any) -> Any:
        self.time = 0
        return (np.zeros(2, np.float32), 1, 2), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.done = action
        obs = (np.full(2, self.time, np.float32), 0, 1)
        return obs, self.rewards, False, [self.time == 4] * 3, {"time": self.time}


def test_agents_that_differ_form_groups() -> None:
    one = TwoKinds()
    env = envs.adapters.SyncEnvs([FromGymnasiumAgents(one)])  # type: ignore[attr-defined]
    assert [len(group) for group in env.groups] == [1, 2]
    runner, watchers = env.groups
    obs = env.reset(seed=0)
    assert obs[watchers.key("obs")].tolist() == [[1, 2]]
    for t in range(4):
        step = env.step({runner.key("action"): [[1]], watchers.key("action"): [[2, 3]]})
        assert one.done == (1, 2, 3)
        assert step.row[watchers.key("reward")].tolist() == [[2.0, 3.0]]
        assert step.truncated[0] == (t == 3)


def test_some_finish_and_the_rest_are_cut_off() -> None:
    one = TwoKinds()
    one.reset()
    step = one.step
    one.step = lambda action: (*step(action)[:2], [True, False, False], [False, True, True], {})  # type: ignore[method-assign]
    env = FromGymnasiumAgents(one)
    found = env.step({group.key("action"): np.zeros(len(group), int) for group in env.groups})
    assert (found.terminated, found.truncated) == (False, True)


def test_rewards_that_do_not_fit_are_named() -> None:
    one = TwoKinds()
    one.rewards = (1.0, 2.0)
    env = envs.adapters.SyncEnvs([FromGymnasiumAgents(one)])  # type: ignore[attr-defined]
    env.reset(seed=0)
    with refused(EnvError, "reward of TwoKinds", got="[2]"):
        env.step({group.key("action"): np.zeros((1, len(group)), int) for group in env.groups})
