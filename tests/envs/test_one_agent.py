"""Environments of one agent, without an axis of agents."""

from __future__ import annotations

import numpy as np

from refusals import refused
from relive import envs
from relive.envs.one_agent import OneAgent
from relive.errors import OptionError


def test_one_agent_has_no_axis_of_agents() -> None:
    many, one = envs.make("CartPole-v1", num_envs=3), OneAgent(envs.make("CartPole-v1", num_envs=3))
    seen, alone = many.reset(seed=1), one.reset(seed=1)
    random = np.random.default_rng(0)
    for _ in range(60):
        assert np.array_equal(seen["obs"][:, 0], alone["obs"])
        action = random.integers(0, 2, 3)
        wide, step = many.step(action[:, None]), one.step(action)
        assert set(wide.row) == set(step.row)
        for key, value in step.row.items():
            assert np.array_equal(value, wide.row[key] if key in ("terminated", "truncated") else wide.row[key][:, 0])
        seen, alone = wide.obs, step.obs
    one.step([0, 1, 0])
    with refused(OptionError, "action", got="[2]"):
        one.step([0, 1])
    assert str(one.schema) == "Schema(obs: float32[4], action: uint8, reward: float32)"


def test_goals_are_judged_by_the_environment() -> None:
    one = OneAgent(envs.make("bitflip", bits=2))
    goals = np.array([[0.0, 1.0], [1.0, 1.0]])
    assert one.compute_reward(goals, np.ones((2, 2)), {}).tolist() == [-1.0, 0.0]
    assert not hasattr(OneAgent(envs.make("CartPole-v1")), "compute_reward")


def test_atari_is_preprocessed() -> None:
    env = OneAgent(envs.make("ALE/Pong-v5", frame_skip=2))
    assert str(env.schema) == "Schema(obs: uint8[84, 84], action: uint8, reward: float32)"
    assert env.max_episode_steps == 54_000
    assert env.reset(seed=0)["obs"].any()


def test_atari_frames_in_stacks_are_those_that_came_one_by_one() -> None:
    env, whole = (OneAgent(envs.make("ALE/Pong-v5", **how)) for how in ({}, {"frame_stack": 3}))
    frames = [env.reset(seed=4)["obs"][0]] * 3
    stack = whole.reset(seed=4)["obs"]
    for action in [0, 2, 3, 3, 2, 5, 1, 4]:
        np.testing.assert_array_equal(stack[0], frames[-3:])
        frames.append(env.step([action]).obs["obs"][0])
        stack = whole.step([action]).obs["obs"]
    with refused(OptionError, "frame_stack", got="0"):
        envs.make("ALE/Pong-v5", frame_stack=0)
