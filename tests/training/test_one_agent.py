"""Runs of algorithms of one agent: trained, interrupted, resumed, evaluated, exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import relive
from refusals import refused
from relive import cli, envs
from relive.agents.registry import find
from relive.envs.one_agent import OneAgent
from relive.errors import OptionError
from relive.training.checkpoint import load_state
from relive.training.export import load_agents, save_agents, to_torch_export
from relive.training.policy import TrainedPolicy, load_policy
from relive.training.replay import load_run

FEW: dict[str, Any] = {"num_envs": 4, "eval_every": 400, "eval_episodes": 3, "video": False, "log": ()}
OFF: dict[str, Any] = {"batch_size": 16, "capacity": 4_000, "learning_starts": 100}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "dqn": {**OFF, "hidden": (8,), "per_alpha": 0.5, "hindsight": "future"},
    "sac": {**OFF, "hidden": (8,), "update_every": 4, "hindsight": "final"},
    "r2d2": {**OFF, "hidden": 8, "length": 3, "burn_in": 2},
    "drqn": {**OFF, "hidden": 8, "length": 3},
    "ppo": {"rollout": 16, "hidden": (8,), "recurrent": True},
    "a2c": {"hidden": (8,)},
    "pg": {"rollout": 16, "hidden": (8,)},
}
CONTINUOUS: dict[str, dict[str, Any]] = {
    "td3": {**OFF, "hidden": (8,), "update_every": 4},
    "ddpg": {**OFF, "hidden": (8,), "update_every": 4, "noise": "ou"},
    "sac": {**OFF, "hidden": (8,), "update_every": 4},
    "ppo": {"rollout": 16, "hidden": (8,), "normalize_obs": True},
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    "name",
    [name if name in ("dqn", "ppo") else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS],
)
def test_a_resumed_run_is_the_same_bit_for_bit(name: str, tmp_path: Path) -> None:
    config = replace(find(name), **ALGORITHMS[name])
    whole = relive.train(
        config, "bitflip", folder=tmp_path / "whole", steps=800, seed=3, env_options={"bits": 4}, **FEW
    )
    relive.train(config, "bitflip", folder=tmp_path / "parts", steps=400, seed=3, env_options={"bits": 4}, **FEW)
    again = relive.resume(tmp_path / "parts", steps=800)
    assert again.metrics["return"] == whole.metrics["return"]
    for mine, other in zip(load_state(tmp_path / "whole"), load_state(tmp_path / "parts"), strict=True):
        assert mine is not None
        assert other is not None
        for key, value in mine.items():
            assert np.array_equal(np.asarray(value), np.asarray(other[key])), key


@pytest.mark.parametrize("name", CONTINUOUS)
def test_what_was_learned_acts_again(name: str, tmp_path: Path) -> None:
    config = replace(find(name), **CONTINUOUS[name])
    relive.train(config, "Pendulum-v1", folder=tmp_path / "run", steps=400, seed=1, **FEW)
    trained, policy = load_run(tmp_path / "run"), load_policy(tmp_path / "run")
    assert trained.evaluate(2)["length"] == 200
    env = OneAgent(envs.make("Pendulum-v1", num_envs=5))
    obs = env.reset(seed=0)
    action = trained.learner.actor(5, explore=False).act(obs)[0]["action"]
    assert policy.act(obs["obs"]).shape == (5, 1)
    np.testing.assert_array_equal(policy.act(obs["obs"]), action)
    np.testing.assert_array_equal(policy.act(obs)["action"], action)
    np.testing.assert_allclose(policy.act(obs["obs"][0]), action[0], rtol=1e-5, atol=1e-6)
    program = torch.export.load(to_torch_export(trained.learner, tmp_path / "policy.pt2"))
    np.testing.assert_allclose(program.module()(torch.from_numpy(obs["obs"]))[0], action, rtol=1e-4, atol=1e-5)


def test_weights_of_an_agent_go_there_and_back(tmp_path: Path) -> None:
    env = OneAgent(envs.make("CartPole-v1"))
    one, two = (find("dqn").learner(env, seed=seed) for seed in (1, 2))
    save_agents(one, env.groups, tmp_path)
    load_agents(two, env.groups, tmp_path)
    obs = {"obs": np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)}
    mine, other = (learner.actor(50, explore=False).act(obs)[0]["action"].tolist() for learner in (one, two))
    assert mine == other


@pytest.mark.parametrize("name", ["dqn", "r2d2", "ppo", "sac"])
def test_actions_that_may_not_be_taken(name: str, tmp_path: Path) -> None:
    """One marine against one: what may be done depends on where it stands, and a wrong choice would be refused."""
    config = replace(find(name), **{key: value for key, value in ALGORITHMS[name].items() if key != "hindsight"})
    relive.train(config, "marines_1v1", folder=tmp_path / "run", steps=800, seed=1, **FEW)
    policy, env = load_policy(tmp_path / "run"), OneAgent(envs.make("marines_1v1", num_envs=3))
    seen = env.reset(seed=0)
    assert seen["avail_actions"].shape == (3, int(env.groups[0].action_space.n))  # type: ignore[attr-defined]
    for _ in range(20):
        action = policy.act(seen)["action"]
        assert seen["avail_actions"][range(3), action].all()
        assert policy.act({"obs": seen["obs"]})["action"].shape == (3,)  # as if all might be done
        seen = env.step(action).obs


def test_masks_that_are_not_given_by_name_allow_everything() -> None:
    env = envs.make("marines_3v3", num_envs=2)
    learner = find("iql").learner(env, seed=0)
    shown = env.reset(seed=0)
    action = TrainedPolicy(learner, env.groups).act({"obs": shown["obs"]})["action"]
    assert action.shape == (2, 3)


@pytest.mark.slow
def test_processes_act_beside_the_learner(tmp_path: Path) -> None:
    config = replace(find("dqn"), **OFF, hidden=(8,))
    done = relive.train(config, "CartPole-v1", folder=tmp_path / "run", steps=800, actors=2, **FEW)
    assert done.steps >= 800
    assert done.updates > 0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    few = "--num-envs 4 --eval-episodes 3 --batch-size 16 --learning-starts 100 --hidden 8 --no-video"
    cli.main(["train", "dqn", "CartPole-v1", "--steps", "400", "--folder", folder, "--preset", "rainbow", *few.split()])
    cli.main(["eval", folder, "--episodes", "3", "--explore"])
    assert "CartPole-v1 after 400 steps, 3 episodes" in capsys.readouterr().out
    assert cli.main(["train", "dqn", "simple_spread", "--steps", "400", "--folder", str(tmp_path / "other")]) == 2
    said = capsys.readouterr().err
    assert "environment must have one agent, got 'simple_spread' with 3." in said
    with refused(OptionError, "action space"):
        relive.train(find("dqn"), "Pendulum-v1", folder=tmp_path / "third", steps=400, **FEW)
