"""QMIX's actors: recurrent states, epsilon, and action masks."""

from __future__ import annotations

import numpy as np
import torch
from qmix_world import SMALL, filled
from scipy.stats import chisquare

from relive import envs
from relive.agents.qmix import QMIXConfig


def test_states_begin_anew_where_episodes_end() -> None:
    env, _, learner = filled("simple_spread", QMIXConfig(**SMALL))
    obs = env.reset(seed=0)
    actor, fresh = learner.actor(4, explore=False), learner.actor(4, explore=False)
    for _ in range(3):
        actor.act(obs)
    actor.reset(np.array([True, False, True, False]))
    before = actor.state_dict()["0.state"]
    fresh.act(obs)
    actor.act(obs)
    shape = (4, 3, -1)
    first, second = (each.state_dict()["0.state"].view(shape) for each in (actor, fresh))
    torch.testing.assert_close(first[[0, 2]], second[[0, 2]])
    assert not torch.allclose(first[[1, 3]], second[[1, 3]])
    assert not before.view(shape)[[0, 2]].any()


def test_acting_changes_nothing_in_the_learner() -> None:
    env, _, learner = filled("simple_spread", QMIXConfig(**SMALL))
    before = learner.state_dict()
    actor, obs = learner.actor(4, explore=True), env.reset(seed=0)
    for _ in range(5):
        obs = env.step(actor.act(obs)[0]).obs
    after = learner.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_chance_is_as_often_as_it_should_be() -> None:
    """Of 20,000 choices among five, a share of epsilon by chance and the rest the best; at epsilon 1 all alike."""
    config = QMIXConfig(**{**SMALL, "recurrent": False}, epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=1000)
    learner = config.learner(envs.make("simple_spread", num_envs=4))
    flat = learner.online["agents"].networks.flat.data
    flat.zero_()
    flat[:, -5:] = torch.tensor([0.0, 0.0, 7.0, 0.0, 0.0])
    obs = {"obs": np.zeros((20_000, 3, 18), np.float32)}
    actor = learner.actor(20_000, explore=True)
    for step, epsilon in ((0, 1.0), (500, 0.6), (1000, 0.2), (9000, 0.2)):
        action = actor.act(obs, step)[0]["action"]
        share = epsilon / 5
        wanted = np.full(5, share) + (1 - epsilon) * (np.arange(5) == 2)
        assert chisquare(np.bincount(action.ravel(), minlength=5), wanted * action.size).pvalue > 1e-4
    assert (learner.actor(20_000, explore=False).act(obs)[0]["action"] == 2).all()
