"""Ensembles of policies, inferred policies, and normalisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from maddpg_plain import filled, stacks

from relive import envs
from relive.agents.maddpg import MADDPG, MADDPGConfig
from relive.tensors import to_torch
from relive.training import train
from relive.training.checkpoint import load_memory


def test_a_member_plays_whole_episodes_and_rows_say_which(tmp_path: Path) -> None:
    config = MADDPGConfig(ensemble=3, learning_starts=200, batch_size=32)
    train(config, env="simple_tag", folder=tmp_path / "run", steps=1600, num_envs=4, eval_every=1600, video=False)
    memory = load_memory(tmp_path / "run")
    for key, agents in (("adversary/ensemble_index", 3), ("agent/ensemble_index", 1)):
        episodes = memory[key].reshape(4, 16, 26, agents)[:, :, :25]  # each has a row more for its last observation
        assert (episodes == episodes[:, :, :1]).all()
        firsts = episodes[:, :, 0].reshape(-1, agents)
        assert (np.bincount(firsts.reshape(-1), minlength=3) > 10).all()
        assert agents == 1 or (firsts[:, 0] != firsts[:, 1]).any()


def test_what_acts_is_what_rows_say() -> None:
    """With one-hot policies, each of an ensemble always doing its own number."""
    env = envs.make("simple_spread", num_envs=6)
    learner = MADDPG(MADDPGConfig(ensemble=4), env.groups, seed=0)
    stack = stacks(learner.groups[0])["actor"]
    with torch.no_grad():
        stack.flat.zero_()
        stack.named_layers()["layers.2.bias"][:, 0, :4] = 1000 * torch.eye(4).repeat(3, 1)
    obs = env.reset(seed=0)
    actor = learner.actor(env.num_envs, explore=True)
    drawn, ended = None, np.zeros(6, bool)
    for step in range(60):
        action, extras = actor.act(obs)
        index = extras["ensemble_index"]
        np.testing.assert_array_equal(action["action"], index)
        if drawn is not None:
            np.testing.assert_array_equal(index[~ended], drawn[~ended])
            assert step % 25 or (index != drawn).any()
        stepped = env.step(action)
        drawn, ended = index, stepped.ended
        actor.reset(ended)
        obs = stepped.obs
    many = envs.make("simple_spread", num_envs=400).reset(seed=0)
    quiet = learner.actor(400, explore=False).act(many)[0]["action"]
    assert len({tuple(row) for row in quiet.tolist()}) > 60, "evaluation plays all 64 teams"
    np.testing.assert_array_equal(quiet, learner.actor(400, explore=False).act(many)[0]["action"])


def test_inferred_policies_are_what_the_others_do() -> None:
    config = MADDPGConfig(infer_policies=True, batch_size=256, max_grad_norm=0.0)
    env, memory = filled("simple_spread", steps=1)
    learner = MADDPG(config, env.groups, seed=0)
    (group,) = learner.groups
    stacks(group)["actor"].flat.data.mul_(4.0)  # decided policies
    obs = env.reset(seed=1)
    actor = learner.actor(env.num_envs, explore=True)
    losses = []
    for _ in range(300):
        stepped = env.step(actor.act(obs)[0])
        memory.append(**stepped.row)
        obs = stepped.obs
        recent = group.reader.rows(to_torch(memory.inspect.newest(256)))
        loss = group.inferred.loss([recent], config.infer_entropy)
        learner.trained[0]["inferred"].step(loss.sum(), max_grad_norm=0.0)
        losses.append(float(loss.detach().mean()))
    assert losses[-1] < 0.8 * losses[0]
    thought = group.inferred.policies[0](recent.obs.expand(3, *recent.obs.shape).flatten(0, 1)).view(3, 3, -1, 5)
    real = torch.softmax(group.policy(recent.obs), dim=-1)
    away = (torch.softmax(thought, dim=-1)[:, :, None] - real).abs().mean(dim=(3, 4))
    for observer in away:  # [the one inferred, the one it is compared with]
        assert (observer.diagonal() < 0.5 * observer[~torch.eye(3, dtype=torch.bool)].min()).all()


def test_networks_read_normal_observations_and_rewards() -> None:
    """The same world in other units gives the same networks."""
    env, memory = filled("simple_spread", steps=200, num_envs=8)
    config = MADDPGConfig(normalize_obs=True, normalize_reward=True)
    learners = [MADDPG(config, env.groups, seed=0) for _ in range(2)]
    scale = np.linspace(0.5, 40.0, 18, dtype=np.float32)
    for _ in range(5):
        batch = memory.sample(256)
        one = learners[0].update(batch)[0]
        changed = {name: batch[name] * scale + 3 for name in ("obs", "next_obs")}
        two = learners[1].update({**batch, **changed, "reward": batch["reward"] * 100})[0]
        assert one["critic_loss"] == pytest.approx(float(two["critic_loss"]), rel=1e-3)
    flats = [stacks(learner.groups[0])["critic_0"].flat for learner in learners]
    torch.testing.assert_close(*flats, rtol=1e-2, atol=1e-3)
    obs = memory.sample(2000)["obs"]
    quiet = [
        learner.actor(2000, explore=False).act({"obs": obs * factor + shift})[0]["action"]
        for learner, factor, shift in ((learners[0], 1, 0), (learners[1], scale, 3))
    ]
    assert (quiet[0] == quiet[1]).mean() > 0.99
    assert learners[0].groups[0].reader.obs_rms.count == 5 * 256 * 3


def test_inferred_policies_learn_from_the_newest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    config = MADDPGConfig(infer_policies=True, normalize_obs=True, batch_size=24)
    env, memory = filled("simple_spread", steps=100, config=config)
    learner = MADDPG(config, env.groups, seed=0)
    learner.groups[0].reader.transitions(to_torch(memory.sample(200)))
    given: list[Any] = []
    monkeypatch.setattr(learner, "update", lambda batch, recent=None: given.append(recent) or ({}, []))
    with pytest.raises(RuntimeError):
        learner.learn(memory)  # no metrics
    newest = memory.inspect.newest(24)
    assert (given[0].serials == newest.serials).all()
    recent = learner.groups[0].reader.rows(to_torch(given[0]))
    assert (newest.serials >= 94).all()
    torch.testing.assert_close(recent.obs, learner.groups[0].reader.obs(torch.from_numpy(newest.obs)))
    torch.testing.assert_close(recent.action.argmax(dim=2).T.numpy(), newest.action.astype(np.int64))


def test_every_group_draws_new_members() -> None:
    env = envs.make("simple_tag", num_envs=50)
    actor = MADDPG(MADDPGConfig(ensemble=3), env.groups, seed=0).actor(50, explore=True)
    obs = env.reset(seed=0)
    before = actor.act(obs)[1]
    actor.reset(np.arange(50) < 25)
    after = actor.act(obs)[1]
    for group in ("adversary", "agent"):
        changed = (after[f"{group}/ensemble_index"] != before[f"{group}/ensemble_index"]).any(axis=1)
        assert changed[:25].any()
        assert not changed[25:].any()
