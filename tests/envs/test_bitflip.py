"""Bit flipping, and hindsight in the algorithms that have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from refusals import refused
from relive import envs
from relive.agents.dqn import DQNConfig
from relive.agents.registry import find
from relive.envs.one_agent import OneAgent
from relive.errors import OptionError


def test_a_bit_flips_and_ends_come_as_they_should() -> None:
    env: Any = envs.make("bitflip", num_envs=4, bits=3)
    obs = env.reset(seed=0)
    random, lengths = np.random.default_rng(0), np.zeros(4, int)
    for _ in range(200):
        action = random.integers(0, 3, (4, 1))
        step = env.step(action)
        lengths += 1
        for e in range(4):
            now = obs["obs/observation"][e, 0].copy()
            now[action[e, 0]] = 1 - now[action[e, 0]]
            goal = obs["obs/desired_goal"][e, 0]
            done = bool((now == goal).all())
            assert step.row["reward"][e, 0] == (0.0 if done else -1.0)
            assert step.terminated[e] == done == step.info["is_success"][e]
            assert step.truncated[e] == (not done and lengths[e] == 3)
            after = step.row["final_obs/achieved_goal"][e, 0] if step.ended[e] else step.obs["obs/achieved_goal"][e, 0]
            assert after.tolist() == now.tolist()
            if step.ended[e]:
                lengths[e] = 0
            else:
                assert step.obs["obs/desired_goal"][e, 0].tolist() == goal.tolist()
        obs = step.obs
    assert env.render(0).shape[2] == 3


def test_a_snapshot_goes_on_bit_for_bit() -> None:
    one: Any = envs.make("bitflip", num_envs=3)
    two: Any = envs.make("bitflip", num_envs=3)
    one.reset(seed=1)
    random = np.random.default_rng(0)
    for _ in range(5):
        one.step(random.integers(0, 12, (3, 1)))
    two.restore(one.snapshot())
    for _ in range(30):
        action = random.integers(0, 12, (3, 1))
        for a, b in zip(one.step(action).obs.values(), two.step(action).obs.values(), strict=True):
            assert np.array_equal(a, b)
    with refused(OptionError, "state['bits']"):
        two.restore({**one.snapshot(), "bits": np.zeros((3, 5))})


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_learners_read_with_hindsight_and_go_on_bit_for_bit(name: str) -> None:
    torch.set_num_threads(1)
    config = replace(find(name), hindsight="future", batch_size=64, hidden=(8,))
    env = OneAgent(envs.make("bitflip", num_envs=3, bits=5))
    found = []
    for again in (False, True):
        memory, one = config.memory(env, lanes=3, seed=0), config.learner(env, seed=1)
        actor, obs = one.actor(3, explore=True, seed=2), env.reset(seed=0)
        for _ in range(40):
            step = env.step(actor.act(obs, 10**6)[0])
            memory.append(**step.row)
            obs = step.obs
        one.learn(memory)
        if again:
            state, one = one.state_dict(), config.learner(env, seed=9)
            one.load_state_dict(state)
        for _ in range(3):
            one.learn(memory)
        found.append(one.state_dict())
    for key, value in found[0].items():
        assert torch.equal(value, found[1][key]), key
    assert memory.sample(64).relabelled.any()


def test_refusals() -> None:
    env = OneAgent(envs.make("bitflip"))
    with refused(OptionError, "n_step", got="3"):
        DQNConfig(hindsight="future", n_step=3).memory(env, lanes=1, seed=0)
    with refused(OptionError, "environment", got="'CartPole-v1'"):
        DQNConfig(hindsight="final").memory(OneAgent(envs.make("CartPole-v1")), lanes=1, seed=0)
