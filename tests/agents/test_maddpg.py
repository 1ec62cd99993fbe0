"""MADDPG: one update after another beside the same written plainly with autograd, agent by agent."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from maddpg_plain import Plain, as_module, filled
from torch import nn

import recollect as rc
from recollect import envs
from recollect.agents.maddpg import MADDPG, MADDPGConfig


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


def test_the_target_by_three_numbers() -> None:
    """Reward 2, gamma 0.9, and critics that say 10 of anything: going on 2 + 0.9 * 10 = 11, cut off 11 too, over 2."""
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
    for terminated, truncated, wanted in ((False, False, 11.0), (False, True, 11.0), (True, False, 2.0)):
        ended = copy.deepcopy(dict(batch))
        ended["discount"] = np.full(32, 0.0 if terminated else 0.9, np.float32)
        found: list[float] = []
        part = team.read(ended)
        joint = torch.zeros(32, sum(team.critics[0].stack.sizes[:1]))
        before = team.critics[0].stack.flat.clone()
        _, error = team.learn_values(
            part, joint, joint, torch.zeros(2, 32, 5), torch.from_numpy(ended["discount"]), None
        )
        team.critics[0].stack.flat.copy_(before)
        found = (10 - error * torch.sign(torch.tensor(10 - wanted))).tolist()
        assert np.allclose(found, wanted), (terminated, truncated)


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
            action = learner.act(env.reset(seed=3), explore=True)
            env.step(action)


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
    seen = env.reset(seed=0)
    for _ in range(5):
        one.act(seen, explore=True)
        one.update(memory.sample(32))
    two = MADDPG(MADDPGConfig(**settings), env.groups, seed=9)
    two.load(one.state())
    for _ in range(5):
        batch = memory.sample(32)
        for key, value in one.act(seen, explore=True).items():
            np.testing.assert_array_equal(two.act(seen, explore=True)[key], value)
            break
        two.load(one.state())
        one.update(batch), two.update(batch)
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
    for step in range(80):
        seen = env.step(learner.act(seen, explore=step % 2 == 0)).seen


def test_evaluation_is_the_mode() -> None:
    env = envs.make("simple_tag", num_envs=8, continuous_actions=True)
    learner = MADDPG(MADDPGConfig(), env.groups, seed=0)
    seen = env.reset(seed=0)
    one, two = learner.act(seen, explore=False), learner.act(seen, explore=False)
    noisy = learner.act(seen, explore=True)
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
