"""MADDPG: one update after another beside the same written plainly with autograd, agent by agent."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maddpg_plain import Plain, as_module, filled
from torch import nn

import recollect as rc
from recollect import envs
from recollect.agents.maddpg import MADDPG, MADDPGConfig
from recollect.envs.interface import AgentGroup


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("simple_spread", {}, {}),
    ("simple_spread", {"continuous_actions": True}, {}),
    ("simple_spread", {"N": 5}, {"activation": "tanh", "clip": 0.0, "hidden": (32,)}),
    ("simple_tag", {}, {"straight_through": False, "temperature": 0.5, "logit_penalty": 0.0}),
    ("simple_tag", {"continuous_actions": True}, {"ddpg": ("agent",), "activation": "leaky_relu"}),
    ("simple_tag", {}, {"ddpg": ("agent", "adversary")}),
    ("simple_world_comm", {}, {"init": "xavier"}),
    ("simple_crypto", {"continuous_actions": True}, {"twin": True, "delay": 2}),
    ("simple_speaker_listener", {}, {"twin": True}),
    ("simple_spread", {}, {"ensemble": 3}),
    ("simple_adversary", {"continuous_actions": True}, {"shares": True, "lr_end": 0.1, "lr_steps": 400}),
    ("simple_tag", {"continuous_actions": True}, {"ensemble": 2, "ddpg": ("agent",)}),
    ("simple_spread", {}, {"infer": True, "infer_entropy": 0.1}),
    ("simple_tag", {"continuous_actions": True}, {"infer": True, "ddpg": ("agent",)}),
    ("simple_world_comm", {}, {"infer": True, "ensemble": 2, "clip": 0.0}),
]


@pytest.mark.parametrize(("name", "options", "settings"), CASES)
def test_same_as_written_plainly(name: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    config = MADDPGConfig(**settings)
    env, memory = filled(name, config=config, **options)
    learner = MADDPG(config, env.groups, seed=1)
    plain = Plain(learner)
    for _ in range(6):
        batch = memory.sample(48)
        learner.update(batch)
        plain.update(batch)
    for key, found, wanted in plain.pairs():
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, msg=f"{name} {key}")


FISH = AgentGroup("fish", ("a", "b", "c"), spaces.Box(-1, 1, (3,)), spaces.Discrete(4), avail=True, mask=True)
BIRDS = AgentGroup("bird", ("d", "e"), spaces.Box(-1, 1, (5,)), spaces.Box(0, 1, (2,)), mask=True)


def chance_batch(random: np.random.Generator, rows: int, *, shared_reward: bool, members: int) -> dict[str, Any]:
    """A batch of agents who come and go and may not do everything."""
    batch: dict[str, Any] = {"discount": random.choice([0.0, 0.95], rows).astype(np.float32)}
    if shared_reward:
        batch["reward"] = random.normal(size=rows).astype(np.float32)
    for group in (FISH, BIRDS):
        shape = (rows, len(group))
        part = {name: random.random(shape) < 0.7 for name in ("agent_mask", "next_agent_mask")}
        for name in ("obs", "next_obs"):
            part[name] = random.normal(size=(*shape, *group.obs_space.shape)).astype(np.float32)
        part["member"] = random.integers(members, size=shape).astype(np.uint8)
        if not shared_reward:
            part["reward"] = random.normal(size=shape).astype(np.float32)
        if group.avail:
            part["action"] = random.integers(4, size=shape).astype(np.uint8)
            for name in ("avail_actions", "next_avail_actions"):
                part[name] = random.random((*shape, 4)) < 0.5
                part[name][np.arange(rows)[:, None], np.arange(3), part["action"]] = True
        else:
            part["action"] = random.random((*shape, 2), np.float32)
        batch[group.name] = part
    return batch


@pytest.mark.parametrize("shared_reward", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"logit_penalty": 0.1},
        {"embed": True, "ddpg": ("bird",)},
        {"infer": True, "ensemble": 2, "twin": True},
    ],
)
def test_masks_are_as_written_plainly(settings: dict[str, Any], shared_reward: bool) -> None:
    config = MADDPGConfig(**settings)
    learner = MADDPG(config, (FISH, BIRDS), seed=1)
    plain = Plain(learner)
    random = np.random.default_rng(0)
    for _ in range(4):
        batch = chance_batch(random, 40, shared_reward=shared_reward, members=config.ensemble)
        learner.update(batch)
        plain.update(batch)
    for key, found, wanted in plain.pairs():
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, msg=key)


def test_who_is_not_there_learns_nothing() -> None:
    learner = MADDPG(MADDPGConfig(infer=True, normalize_reward=True), (FISH, BIRDS), seed=1)
    before = {key: value.clone() for key, value in learner.state().items()}
    batch = chance_batch(np.random.default_rng(0), 40, shared_reward=False, members=1)
    batch["fish"]["agent_mask"][:] = False
    learner.update(batch)
    for key, value in learner.state().items():
        if key in ("fish/actor", "fish/critic_0", "fish/size/count"):
            assert torch.equal(value, before[key]), key
        if key in ("bird/actor", "bird/critic_0"):
            assert not torch.equal(value, before[key]), key


def test_moments_of_those_who_are_there() -> None:
    learner = MADDPG(MADDPGConfig(normalize_obs=True), (FISH, BIRDS), seed=1)
    seen = {
        "fish/obs": np.full((6, 3, 3), 7.0, np.float32),
        "fish/avail_actions": np.ones((6, 3, 4), bool),
        "fish/agent_mask": np.zeros((6, 3), bool),
        "bird/obs": np.ones((6, 2, 5), np.float32),
        "bird/agent_mask": np.arange(12).reshape(6, 2) < 5,
    }
    learner.player(6, explore=True).act(seen)
    fish, birds = learner._teams
    assert fish._moments.count == 0
    assert birds._moments.count == 5
    assert (birds._moments.mean == 1).all()


def test_exploring_by_chance() -> None:
    """Epsilon 0.5 over a policy that always does 0: 0 is done half the time, and a quarter of the rest."""
    group = AgentGroup("", ("a",), spaces.Box(-1, 1, (2,)), spaces.Discrete(4))
    learner = MADDPG(MADDPGConfig(epsilon=0.5), (group,), seed=0)
    actor = learner._teams[0].actor.stack
    actor.flat.zero_()
    actor.biases[-1][0, 0, 0] = 1000.0
    seen = {"obs": np.zeros((20_000, 1, 2), np.float32)}
    done = learner.player(20_000, explore=True).act(seen)["action"]
    assert abs((done == 0).mean() - 0.625) < 0.02
    assert (learner.player(20_000, explore=False).act(seen)["action"] == 0).all()


def test_noise_shrinks_and_begins_anew() -> None:
    group = AgentGroup("", ("a",), spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,)))
    settings: dict[str, Any] = {"noise_start": 0.4, "noise_end": 0.1, "noise_steps": 1000}
    learner = MADDPG(MADDPGConfig(**settings), (group,), seed=0)
    learner._teams[0].actor.stack.flat.zero_()
    seen = {"obs": np.zeros((20_000, 1, 2), np.float32)}
    for step, wanted in ((0, 0.4), (500, 0.25), (2000, 0.1)):
        found = learner.player(20_000, explore=True).act(seen, step)["action"]
        assert found.std() == pytest.approx(min(wanted, 0.38), abs=0.02)
    drunk = MADDPG(MADDPGConfig(noise="ou", **settings), (group,), seed=0)
    drunk._teams[0].actor.stack.flat.zero_()
    walk = drunk.player(20_000, explore=True)
    for _ in range(30):
        walk.act(seen, 2000)
    late = walk.act(seen, 2000)["action"][:10_000].std()
    walk.ended(np.arange(20_000) < 10_000)
    anew = walk.act(seen, 2000)["action"]
    assert anew[:10_000].std() == pytest.approx(0.1, abs=0.01)
    assert anew[10_000:].std() == pytest.approx(late, rel=0.1)
    assert late > 0.15


def test_target_actions_are_smoothed() -> None:
    env, memory = filled("simple_spread", continuous_actions=True)
    batch = memory.sample(500)
    found = []
    for smoothing in (0.0, 0.1):
        learner = MADDPG(MADDPGConfig(smoothing=smoothing), env.groups, seed=0)
        (team,) = learner._teams
        found.append(team.target_codes(team.read(batch), learner.random))
    away = found[1] - found[0]
    assert away.std() == pytest.approx(0.1, rel=0.1)
    assert away.abs().max() <= 0.25 + 1e-6
    assert found[1].abs().max() <= 1


def test_the_target_by_three_numbers() -> None:
    """Reward 2, gamma 0.9, and critics that say 10 of anything: going on 2 + 0.9 * 10 = 11; over: 2."""
    env, memory = filled(
        "simple_spread", steps=60, config=MADDPGConfig(gamma=0.9), N=2, terminate_on_success=True, max_cycles=10
    )
    learner = MADDPG(MADDPGConfig(gamma=0.9), env.groups, seed=0)
    (team,) = learner._teams
    for stack in (nets.stack for nets in (*team.critics, *team.critic_targets)):
        stack.flat.zero_()
        stack.biases[-1].fill_(10.0)
    batch = memory.sample(32)
    batch.reward[:] = 2.0
    for terminated, wanted in ((False, 11.0), (True, 2.0)):
        ended = copy.deepcopy(dict(batch))
        ended["discount"] = np.full(32, 0.0 if terminated else 0.9, np.float32)
        part = team.read(ended)
        joint = torch.zeros(32, sum(team.critics[0].stack.sizes[:1]))
        before = team.critics[0].stack.flat.clone()
        _, error = team.learn_values(
            part, joint, joint, torch.zeros(2, 32, 5), torch.from_numpy(ended["discount"]), None
        )
        team.critics[0].stack.flat.copy_(before)
        found = (10 - error * torch.sign(torch.tensor(10 - wanted))).tolist()
        assert np.allclose(found, wanted), terminated


def test_a_truncated_step_goes_on_from_what_was_seen() -> None:
    _, memory = filled("simple_spread", steps=60, config=MADDPGConfig(gamma=0.9))
    batch = memory.sample(500)
    assert (batch.discount[batch.truncated] == np.float32(0.9)).all()
    assert batch.truncated.any()


def test_sharing_is_one_network() -> None:
    for name in ("simple_spread", "simple_tag"):
        for options in ({}, {"continuous_actions": True}):
            env, memory = filled(name, **options)
            learner = MADDPG(MADDPGConfig(share=("all",)), env.groups, seed=0)
            assert all(stack.count == 1 for team in learner._teams for stack in team.stacks().values())
            losses = [learner.update(memory.sample(64))[0] for _ in range(60)]
            if name == "simple_spread":
                assert np.mean([loss["critic_loss"] for loss in losses[-10:]]) < losses[0]["critic_loss"]
            player = learner.player(env.num_envs, explore=True)
            env.step(player.act(env.reset(seed=3)))


def test_shared_gradients_are_autograds() -> None:
    """The policy's slope through a shared critic, by autograd over the whole input."""
    env, memory = filled("simple_spread")
    learner = MADDPG(MADDPGConfig(share=("all",), clip=0.0, logit_penalty=0.0), env.groups, seed=0)
    (team,) = learner._teams
    batch = memory.sample(16)
    part = team.read(batch)
    joint = torch.cat([part.obs.flatten(1), part.codes.flatten(1)], dim=1)
    actor, critic = as_module(team.actor.stack, 0, "relu"), as_module(team.critics[0].stack, 0, "relu")
    state = learner.random.get_state()
    team.learn_policy(part, joint, learner.random)
    random = torch.Generator()
    random.set_state(state)
    chance = -torch.log(torch.rand(3, 5, 16, generator=random)).transpose(1, 2)
    loss = torch.zeros(())
    for i in range(3):
        tag = torch.eye(3)[i].expand(16, 3)
        soft = torch.softmax(actor(torch.cat([tag, part.obs[:, i]], dim=1)) - torch.log(chance[i]), dim=-1)
        own = nn.functional.one_hot(soft.argmax(dim=-1), 5).float() + soft - soft.detach()
        codes = [own if j == i else part.codes[:, j] for j in range(3)]
        loss = loss - critic(torch.cat([tag, part.obs.flatten(1), *codes], dim=1)).mean()
    loss.backward()
    layers = [layer for layer in actor if isinstance(layer, nn.Linear)]
    wanted = torch.cat([torch.cat([layer.weight.grad.T.flatten(), layer.bias.grad]) for layer in layers])
    torch.testing.assert_close(team.actor.stack.grad[0], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["simple_tag", "marines_3v3"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise": "ou", "twin": True, "smoothing": 0.1},
        {"epsilon": 0.3, "embed": True},
        {"ensemble": 2, "infer": True, "normalize_obs": True, "normalize_reward": True, "batch": 32},
        {"ensemble": 2, "share": ("all",), "infer": True},
    ],
)
def test_a_state_goes_on_bit_for_bit(name: str, settings: dict[str, Any]) -> None:
    options = {"continuous_actions": True} if "noise" in settings and name == "simple_tag" else {}
    config = MADDPGConfig(**settings)
    env, memory = filled(name, config=config, **options)
    one = MADDPG(config, env.groups, seed=0)
    playing = one.player(env.num_envs, explore=True)
    seen = env.reset(seed=0)

    def on(*pairs: tuple[MADDPG, Any]) -> None:
        """A step, and an update, of learners who should be the same."""
        nonlocal seen
        actions = [player.act(seen, 100) for _, player in pairs]
        for action in actions:
            for key, value in action.items():
                np.testing.assert_array_equal(value, actions[0][key])
        step = env.step(actions[0])
        seen = step.seen
        batch = memory.sample(32)
        for learner, player in pairs:
            player.ended(step.ended)
            learner.update(batch)

    for _ in range(30):
        on((one, playing))
    two = MADDPG(config, env.groups, seed=9)
    again = two.player(env.num_envs, explore=True)
    two.load(one.state())
    again.load(playing.state())
    for _ in range(30):
        on((one, playing), (two, again))
    for key, value in one.state().items():
        assert torch.equal(two.state()[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        env, memory = filled("simple_spread")
        learner = MADDPG(MADDPGConfig(), env.groups, seed=5)
        for _ in range(50):
            learner.update(memory.sample(64))
        found.append(learner.state())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


def test_only_what_may_be_done_is_done() -> None:
    env = envs.make("marines_3v3", num_envs=16)
    learner = MADDPG(MADDPGConfig(epsilon=0.2), env.groups, seed=0)
    seen = env.reset(seed=0)
    players = [learner.player(16, explore=explore) for explore in (True, False)]
    for step in range(80):
        seen = env.step(players[step % 2].act(seen)).seen


def test_evaluation_is_the_mode() -> None:
    env = envs.make("simple_tag", num_envs=8, continuous_actions=True)
    learner = MADDPG(MADDPGConfig(), env.groups, seed=0)
    seen = env.reset(seed=0)
    one, two, noisy = (learner.player(8, explore=explore).act(seen) for explore in (False, False, True))
    for key, value in one.items():
        np.testing.assert_array_equal(value, two[key])
        assert (value != noisy[key]).any()
        assert value.min() >= 0
        assert noisy[key].max() <= 1


def test_weights_of_priorities_count() -> None:
    env, memory = filled("simple_spread")
    batch = memory.sample(32)
    flats = []
    for weights in (np.ones(32, np.float32), np.zeros(32, np.float32)):
        learner = MADDPG(MADDPGConfig(), env.groups, seed=0)
        before = learner._teams[0].critics[0].stack.flat.clone()
        _, errors = learner.update({**batch, "weights": weights})
        flats.append(learner._teams[0].critics[0].stack.flat - before)
        assert errors.shape == (32,)
        assert (errors > 0).all()
    assert flats[0].abs().max() > 0
    assert flats[1].abs().max() == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 1.5}, "gamma must be from 0 to 1, got 1.5"),
        ({"hidden": ()}, "hidden must be units of at least one layer, got ()"),
        ({"ddpg": ("prey",)}, "group must be one of adversary, agent, or all, got 'prey'"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(rc.errors.OptionError) as caught:
        MADDPG(MADDPGConfig(**settings), envs.make("simple_tag").groups, seed=0)
    assert str(caught.value) == message


def test_shares_add_up_to_one() -> None:
    env = envs.make("simple_tag", num_envs=8, continuous_actions=True)
    learner = MADDPG(MADDPGConfig(shares=True), env.groups, seed=0)
    for explore in (True, False):
        for action in learner.player(8, explore=explore).act(env.reset(seed=0)).values():
            np.testing.assert_allclose(action.sum(axis=2), 1, rtol=1e-5)
            assert action.min() >= 0


def test_embedding_keeps_observations_and_actions_apart() -> None:
    env, memory = filled("simple_spread")
    learner = MADDPG(MADDPGConfig(embed=True), env.groups, seed=0)
    for _ in range(3):
        learner.update(memory.sample(64))
    first = learner._teams[0].critics[0].stack.weights[0]
    seen = 3 * 18
    assert not first[:, :seen, 32:].any()
    assert not first[:, seen:, :32].any()
    assert first[:, :seen, :32].all()
    assert first[:, seen:, 32:].all()
