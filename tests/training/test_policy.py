"""Trained policies in use: one environment or many, by arrays or by names, and as files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import one_of_each

import relive as rl
from refusals import refused
from relive import envs
from relive.envs.adapters import ToPettingZoo
from relive.training.replay import load_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return one_of_each(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize(
    ("name", "env", "options"),
    [
        ("tag", "simple_tag", {}),
        ("spread", "simple_spread", {"continuous_actions": True}),
        ("marines", "marines_3v3", {}),
        ("recurrent", "marines_3v3", {}),
        ("chance", "simple_tag", {"continuous_actions": True}),
    ],
)
def test_it_plays_as_the_run_was_evaluated(runs: dict[str, Path], name: str, env: str, options: dict[str, Any]) -> None:
    """Whole episodes by hand have the returns that the run's own evaluation has."""
    policy = rl.load_policy(runs[name])
    world = envs.make(env, num_envs=7, **options)
    obs, going = world.reset(seed=5), np.ones(7, bool)
    key = "reward" if world.shared_reward else world.groups[0].key("reward")
    total = np.zeros(7)
    while going.any():
        step = world.step(policy.act(obs))
        reward = step.row[key]
        total += going * (reward if reward.ndim == 1 else reward.mean(axis=1))
        going &= ~step.ended
        policy.reset(step.ended)
        obs = step.obs
    shown = key.replace("reward", "return")
    assert load_run(runs[name]).evaluate(7, seed=5)[shown] == pytest.approx(total.mean(), rel=1e-5)


def test_arrays_of_one_environment_or_many(runs: dict[str, Path]) -> None:
    policy = rl.load_policy(runs["spread"])
    many = np.random.default_rng(0).standard_normal((4, 3, 18)).astype(np.float32)
    actions = policy.act(many)
    assert actions.shape == (4, 3, 5)
    for one, action in zip(many, actions, strict=True):
        np.testing.assert_allclose(policy.act(one), action, rtol=1e-5)
    np.testing.assert_allclose(policy.act(many[0].tolist()), actions[0], rtol=1e-5)


def test_one_agent_needs_no_axis_of_agents(runs: dict[str, Path]) -> None:
    policy = rl.load_policy(runs["cart"])
    assert policy.act(np.zeros(4, np.float32)).shape == ()
    policy.reset()
    assert policy.act(np.zeros((6, 4), np.float32)).shape == (6,)


def test_by_the_names_of_agents(runs: dict[str, Path]) -> None:
    policy = rl.load_policy(runs["tag"])
    world = ToPettingZoo(envs.make("simple_tag"))
    obs, _ = world.reset(seed=3)
    actions = policy.act(obs)
    assert set(actions) == set(obs)
    chasing = np.stack([obs[f"adversary_{number}"] for number in range(3)])
    fields = {"adversary/obs": chasing[None], "agent/obs": obs["agent_0"][None, None]}
    assert actions["agent_0"] == policy.act(fields)["agent/action"][0, 0]
    world.step(actions)
    fewer = {agent: value for agent, value in obs.items() if agent != "adversary_1"}
    assert set(policy.act(fewer)) == set(fewer)


def test_states_are_remembered_until_reset(runs: dict[str, Path]) -> None:
    policy = rl.load_policy(runs["marines"])
    world = envs.make("marines_3v3", num_envs=2)
    obs = world.reset(seed=0)
    first = policy.act(obs)
    policy.act(obs)
    state = policy._actor.state_dict()["0.state"]  # type: ignore[union-attr]
    assert state.any()
    policy.reset([True, False])
    again = policy._actor.state_dict()["0.state"].view(2, 3, -1)  # type: ignore[union-attr]
    assert not again[0].any()
    assert again[1].any()
    policy.reset()
    np.testing.assert_array_equal(policy.act(obs)["action"], first["action"])


def test_what_cannot_be_seen(runs: dict[str, Path]) -> None:
    with refused(rl.errors.OptionError, "obs"):
        rl.load_policy(runs["spread"]).act(np.zeros((2, 18)))
    with refused(rl.errors.OptionError, "obs"):
        rl.load_policy(runs["tag"]).act(np.zeros(3))
