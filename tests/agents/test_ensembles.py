"""Ensembles of policies, guesses of the others' policies, and normalisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from maddpg_plain import filled

from recollect import envs
from recollect.agents.maddpg import MADDPG, MADDPGConfig
from recollect.agents.maddpg.guesses import Deeds, Latest
from recollect.learn import head_of
from recollect.train import run
from recollect.train.checkpoint import load_memory


def test_a_member_plays_whole_episodes_and_rows_say_which(tmp_path: Path) -> None:
    config = MADDPGConfig(ensemble=3, warmup=200, batch=32)
    run(config, env="simple_tag", folder=tmp_path / "run", steps=1600, num_envs=4, eval_every=1600, film=False)
    memory = load_memory(tmp_path / "run")
    for key, agents in (("adversary/member", 3), ("agent/member", 1)):
        episodes = memory[key].reshape(4, 16, 26, agents)[:, :, :25]  # each has a row more for its last observation
        assert (episodes == episodes[:, :, :1]).all()
        firsts = episodes[:, :, 0].reshape(-1, agents)
        assert (np.bincount(firsts.reshape(-1), minlength=3) > 10).all()
        assert agents == 1 or (firsts[:, 0] != firsts[:, 1]).any()


def test_what_acts_is_what_rows_say() -> None:
    """With one-hot policies, each member always doing its own number."""
    env = envs.make("simple_spread", num_envs=6)
    learner = MADDPG(MADDPGConfig(ensemble=4), env.groups, seed=0)
    (team,) = learner._teams
    actor = team.actor.stack
    actor.flat.zero_()
    for agent in range(3):
        for member in range(4):
            actor.biases[-1][agent * 4 + member, 0, member] = 1000.0
    seen = env.reset(seed=0)
    player = learner.player(env.num_envs, explore=True)
    for step in range(60):
        action = player.act(seen)["action"]
        np.testing.assert_array_equal(action, player.notes()["member"])
        stepped = env.step(action)
        before = player.notes()["member"]
        player.ended(stepped.ended)
        kept = ~stepped.ended
        np.testing.assert_array_equal(player.notes()["member"][kept], before[kept])
        seen = stepped.seen
        if step % 25 == 24:
            assert (player.notes()["member"] != before).any()
    many = envs.make("simple_spread", num_envs=400).reset(seed=0)
    quiet = learner.player(400, explore=False).act(many)["action"]
    assert len({tuple(row) for row in quiet.tolist()}) > 60, "evaluation plays all 64 teams of members"
    np.testing.assert_array_equal(quiet, learner.player(400, explore=False).act(many)["action"])


def test_guesses_learn_what_the_others_do() -> None:
    env, memory = filled("simple_spread", steps=100)
    learner = MADDPG(MADDPGConfig(infer=True, batch=256, clip=0.0), env.groups, seed=0)
    (team,) = learner._teams
    team.actor.stack.flat.mul_(4.0)  # decided policies
    seen = env.reset(seed=1)
    player = learner.player(env.num_envs, explore=True)
    losses = []
    for _ in range(300):
        stepped = env.step(player.act(seen))
        seen = stepped.seen
        deeds = team.deeds(team.read(memory.sample(8)))
        losses.append(float(team.guesses.learn([deeds])))
    assert losses[-1] < 0.8 * losses[0]
    obs = deeds.obs
    thought = team.guesses.stacks[0](team.guesses._each(obs)).view(3, 3, -1, 5)
    away = (torch.softmax(thought, dim=-1)[:, :, None] - torch.softmax(team.actor(obs), dim=-1)).abs().mean(dim=(3, 4))
    for seer in away:  # [the one guessed, the one it is compared with]
        assert (seer.diagonal() < 0.5 * seer[~torch.eye(3, dtype=torch.bool)].min()).all()


@given(
    st.integers(1, 7),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.booleans(),
)
def test_the_latest_deeds_are_the_latest(rows: int, counts: list[int], masks: bool) -> None:
    latest, plain, number = Latest(rows), [], 0
    for count in counts:
        numbers = torch.arange(number, number + count, dtype=torch.float32)
        number += count
        obs = numbers[None, :, None].expand(2, -1, 3).clone()
        mask = (numbers % 2 == 0).expand(2, -1)
        latest.add(Deeds(obs, obs * 10, mask[..., None] if masks else None, mask if masks else None))
        plain = (plain + numbers.tolist())[-rows:]
        again = Latest(rows)
        again.load(latest.state())
        for each in (latest, again):
            found = each.read()
            assert sorted(found.obs[0, :, 0].tolist()) == plain
            assert torch.equal(found.codes, found.obs * 10)
            if masks:
                assert torch.equal(found.present, found.obs[..., 0] % 2 == 0)
            else:
                assert found.present is None


@pytest.mark.parametrize(
    ("space", "shares"),
    [
        (spaces.Discrete(4), False),
        (spaces.MultiDiscrete([3, 2]), False),
        (spaces.Box(-1, 1, (3,)), False),
        (spaces.Box(0, 1, (3,)), True),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_the_slope_of_a_fit_is_autograds(space: Any, shares: bool, masked: bool) -> None:
    head = head_of(space, shares=shares)
    random = torch.Generator().manual_seed(0)
    outputs = torch.randn(2, 7, head.outputs, generator=random).requires_grad_()
    allowed = None
    if masked and isinstance(space, spaces.Discrete):
        allowed = torch.rand(2, 7, 4, generator=random) < 0.6
        allowed[..., 0] = True
    space.seed(0)
    numbers = np.stack([space.sample() for _ in range(14)]).reshape(2, 7, *space.shape)
    if shares:
        numbers = numbers / numbers.sum(axis=-1, keepdims=True)
    code = head.encode(torch.from_numpy(numbers))
    if allowed is not None:
        allowed |= code.bool()
    loss, slope = head.fit(outputs.detach(), code, 0.3, allowed)
    if shares:
        chances = torch.distributions.Categorical(logits=outputs)
        plain = -(code * chances.logits).sum(dim=-1) - 0.3 * chances.entropy()
    elif isinstance(space, spaces.Box):
        plain = ((torch.tanh(outputs) - code) ** 2).sum(dim=-1) / 2
    else:
        free = outputs if allowed is None else outputs.masked_fill(~allowed, -1e9)
        plain = torch.zeros(2, 7)
        for logits, seen in zip(free.split(head._counts, dim=2), code.split(head._counts, dim=2), strict=True):
            chances = torch.distributions.Categorical(logits=logits)
            plain = plain - chances.log_prob(seen.argmax(dim=-1)) - 0.3 * chances.entropy()
    torch.testing.assert_close(loss, plain.detach())
    plain.sum().backward()
    torch.testing.assert_close(slope, outputs.grad, rtol=1e-4, atol=1e-6)


def test_networks_read_normal_observations_and_rewards() -> None:
    """The same world in other units gives the same networks."""
    env, memory = filled("simple_spread", steps=200, num_envs=8)
    config = MADDPGConfig(normalize_obs=True, normalize_reward=True)
    learners = [MADDPG(config, env.groups, seed=0) for _ in range(2)]
    scale = np.linspace(0.5, 40.0, 18, dtype=np.float32)
    seen = memory.sample(2000)["obs"]
    for _ in range(3):
        learners[0].player(2000, explore=True).act({"obs": seen})
        learners[1].player(2000, explore=True).act({"obs": seen * scale + 3})
    for _ in range(5):
        batch = memory.sample(64)
        one = learners[0].update(batch)[0]
        changed = {name: batch[name] * scale + 3 for name in ("obs", "next_obs")}
        two = learners[1].update({**batch, **changed, "reward": batch["reward"] * 100})[0]
        assert one["critic_loss"] == pytest.approx(two["critic_loss"], rel=1e-3)
    flats = [learner._teams[0].critics[0].stack.flat for learner in learners]
    torch.testing.assert_close(*flats, rtol=1e-2, atol=1e-3)
    quiet = [
        learner.player(2000, explore=False).act({"obs": seen * factor + shift})["action"]
        for learner, factor, shift in ((learners[0], 1, 0), (learners[1], scale, 3))
    ]
    assert (quiet[0] == quiet[1]).mean() > 0.99
    count = learners[0]._teams[0]._moments.count
    learners[0].player(2000, explore=False).act({"obs": seen})
    assert learners[0]._teams[0]._moments.count == count, "evaluation changes nothing"


def test_guesses_read_normal_observations_too() -> None:
    env, memory = filled("simple_spread", steps=100)
    learner = MADDPG(MADDPGConfig(infer=True, normalize_obs=True, batch=env.num_envs), env.groups, seed=0)
    (team,) = learner._teams
    seen = env.reset(seed=1)
    learner.player(env.num_envs, explore=True).act(seen)
    raw = torch.from_numpy(seen["obs"]).transpose(0, 1)
    found = team.deeds(team.read(memory.sample(8))).obs
    torch.testing.assert_close(found, team._moments(raw))
    assert not torch.allclose(found, raw)


def test_every_group_draws_new_members() -> None:
    env = envs.make("simple_tag", num_envs=50)
    player = MADDPG(MADDPGConfig(ensemble=3), env.groups, seed=0).player(50, explore=True)
    before = player.notes()
    player.ended(np.arange(50) < 25)
    for group in ("adversary", "agent"):
        changed = (player.notes()[f"{group}/member"] != before[f"{group}/member"]).any(axis=1)
        assert changed[:25].any()
        assert not changed[25:].any()
