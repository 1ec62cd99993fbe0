"""MADDPG's actors: their weights, exploration, and what they may do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maddpg_plain import filled, stacks

from relive import envs
from relive.agents.maddpg import MADDPG, MADDPGConfig
from relive.envs.interface import AgentGroup


def test_acting_changes_nothing_in_the_learner() -> None:
    env, memory = filled("simple_tag", config=MADDPGConfig(ensemble=2))
    config = MADDPGConfig(normalize_obs=True, infer_policies=True, ensemble=2, batch_size=32)
    learner = MADDPG(config, env.groups, seed=1)
    learner.learn(memory)
    before = learner.state_dict()
    actor = learner.actor(env.num_envs, explore=True, seed=3)
    obs = env.reset(seed=0)
    for _ in range(30):
        step = env.step(actor.act(obs)[0])
        actor.reset(step.ended)
        obs = step.obs
    after = learner.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_actors_keep_their_weights_until_they_get_others() -> None:
    env, memory = filled("simple_spread", continuous_actions=True)
    learner = MADDPG(MADDPGConfig(batch_size=32), env.groups, seed=1)
    actor = learner.actor(env.num_envs, explore=False)
    obs = env.reset(seed=0)
    done = [actor.act(obs)[0]["action"]]
    versions = [learner.weights().version]
    for load in (False, True):
        learner.learn(memory)
        if load:
            actor.load(learner.weights())
        done.append(actor.act(obs)[0]["action"])
        versions.append(learner.weights().version)
    np.testing.assert_array_equal(done[0], done[1])
    assert (done[1] != done[2]).any()
    assert versions == [0, 1, 2]
    outputs = learner.groups[0].policy(torch.from_numpy(obs["obs"]).transpose(0, 1)).transpose(0, 1)
    np.testing.assert_allclose(done[2], 0.5 + 0.5 * outputs.detach().tanh().numpy(), atol=1e-6)  # a box from 0 to 1


def set_outputs(stack: Any, values: Any) -> None:
    """Networks whose outputs are always the same, ``[N, out]``."""
    with torch.no_grad():
        stack.flat.zero_()
        stack.shape.layers(stack.flat)[-1][1][:, 0] = torch.as_tensor(values, dtype=torch.float32)


def test_exploring_by_chance() -> None:
    """Epsilon 0.5 over a policy that always does 0: 0 is done half the time, and a quarter of the rest."""
    group = AgentGroup("", ("a",), spaces.Box(-1, 1, (2,)), spaces.Discrete(4))
    learner = MADDPG(MADDPGConfig(epsilon=0.5), (group,), seed=0)
    set_outputs(stacks(learner.groups[0])["actor"], [[1000.0, 0, 0, 0]])
    obs = {"obs": np.zeros((20_000, 1, 2), np.float32)}
    done = learner.actor(20_000, explore=True).act(obs)[0]["action"]
    assert abs((done == 0).mean() - 0.625) < 0.02
    assert (learner.actor(20_000, explore=False).act(obs)[0]["action"] == 0).all()


def test_noise_shrinks_and_begins_anew() -> None:
    group = AgentGroup("", ("a",), spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,)))
    settings: dict[str, Any] = {"noise_start": 0.4, "noise_end": 0.1, "noise_steps": 1000}
    learner = MADDPG(MADDPGConfig(**settings), (group,), seed=0)
    set_outputs(stacks(learner.groups[0])["actor"], [[0.0]])
    obs = {"obs": np.zeros((20_000, 1, 2), np.float32)}
    for step, wanted in ((0, 0.4), (500, 0.25), (2000, 0.1)):
        found = learner.actor(20_000, explore=True).act(obs, step)[0]["action"]
        assert found.std() == pytest.approx(min(wanted, 0.38), abs=0.02)
    drunk = MADDPG(MADDPGConfig(noise="ou", **settings), (group,), seed=0)
    set_outputs(stacks(drunk.groups[0])["actor"], [[0.0]])
    walk = drunk.actor(20_000, explore=True)
    for _ in range(30):
        walk.act(obs, 2000)
    late = walk.act(obs, 2000)[0]["action"][:10_000].std()
    walk.reset(np.arange(20_000) < 10_000)
    anew = walk.act(obs, 2000)[0]["action"]
    assert anew[:10_000].std() == pytest.approx(0.1, abs=0.01)
    assert anew[10_000:].std() == pytest.approx(late, rel=0.1)
    assert late > 0.15


def test_only_what_may_be_done_is_done() -> None:
    env = envs.make("marines_3v3", num_envs=16)
    learner = MADDPG(MADDPGConfig(epsilon=0.2), env.groups, seed=0)
    seen = env.reset(seed=0)
    actors = [learner.actor(16, explore=explore) for explore in (True, False)]
    for step in range(80):
        seen = env.step(actors[step % 2].act(seen)[0]).obs


def test_evaluation_is_the_mode() -> None:
    env = envs.make("simple_tag", num_envs=8, continuous_actions=True)
    learner = MADDPG(MADDPGConfig(), env.groups, seed=0)
    seen = env.reset(seed=0)
    one, two, noisy = (learner.actor(8, explore=explore).act(seen)[0] for explore in (False, False, True))
    for key, value in one.items():
        np.testing.assert_array_equal(value, two[key])
        assert (value != noisy[key]).any()
        assert value.min() >= 0
        assert noisy[key].max() <= 1
