"""MADDPG: one update after another beside the same written plainly with autograd, agent by agent."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maddpg_plain import Plain, as_module, filled, stacks
from torch import nn

import relive as rl
from refusals import refused
from relive import envs
from relive.agents.maddpg import MADDPG, MADDPGConfig
from relive.envs.interface import AgentGroup
from relive.tensors import to_torch

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("simple_spread", {}, {}),
    ("simple_spread", {"continuous_actions": True}, {}),
    ("simple_spread", {"N": 5}, {"activation": "tanh", "max_grad_norm": 0.0, "hidden": (32,)}),
    ("simple_tag", {}, {"straight_through": False, "temperature": 0.5, "logit_penalty": 0.0}),
    ("simple_tag", {"continuous_actions": True}, {"ddpg": ("agent",), "activation": "leaky_relu"}),
    ("simple_tag", {}, {"ddpg": ("agent", "adversary")}),
    ("simple_world_comm", {}, {"init": "xavier"}),
    ("simple_crypto", {"continuous_actions": True}, {"twin_q": True, "policy_delay": 2}),
    ("simple_speaker_listener", {}, {"twin_q": True}),
    ("simple_spread", {}, {"ensemble": 3}),
    ("simple_adversary", {"continuous_actions": True}, {"simplex_actions": True, "lr_end": 0.1, "lr_steps": 400}),
    ("simple_tag", {"continuous_actions": True}, {"ensemble": 2, "ddpg": ("agent",)}),
    ("simple_spread", {}, {"infer_policies": True, "infer_entropy": 0.1}),
    ("simple_tag", {"continuous_actions": True}, {"infer_policies": True, "ddpg": ("agent",)}),
    ("simple_world_comm", {}, {"infer_policies": True, "ensemble": 2, "max_grad_norm": 0.0}),
]


@pytest.mark.parametrize(("name", "options", "settings"), CASES)
def test_same_as_written_plainly(name: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    config = MADDPGConfig(**settings)
    env, memory = filled(name, config=config, **options)
    learner = MADDPG(config, env.groups, seed=2)  # with some seeds a unit lies at its kink, and rounding decides
    plain = Plain(learner)
    for _ in range(6):
        batch = memory.sample(48)
        learner.update(batch)
        plain.update(batch)
    for key, found, wanted in plain.pairs():
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, msg=lambda text, key=key: f"{key} {text}")


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
        part["ensemble_index"] = random.integers(members, size=shape).astype(np.uint8)
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
        {"split_critic_input": True, "ddpg": ("bird",)},
        {"infer_policies": True, "ensemble": 2, "twin_q": True},
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
    learner = MADDPG(MADDPGConfig(infer_policies=True, normalize_reward=True), (FISH, BIRDS), seed=1)
    before = learner.state_dict()
    batch = chance_batch(np.random.default_rng(0), 40, shared_reward=False, members=1)
    batch["fish"]["agent_mask"][:] = False
    learner.update(batch)
    after = learner.state_dict()

    def changed(prefix: str) -> bool:
        names = [name for name in before if name.startswith(f"networks.{prefix}")]
        assert names
        return any(not torch.equal(before[name], after[name]) for name in names)

    assert not changed("fish.policy.")
    assert not changed("fish.critics.")
    assert not changed("fish.reader.reward_rms.")
    assert changed("bird.policy.")
    assert changed("bird.critics.")


def test_statistics_of_those_who_are_there() -> None:
    learner = MADDPG(MADDPGConfig(normalize_obs=True), (FISH, BIRDS), seed=1)
    batch = chance_batch(np.random.default_rng(0), 6, shared_reward=False, members=1)
    batch["fish"]["agent_mask"][:] = False
    batch["bird"]["agent_mask"] = np.arange(12).reshape(6, 2) < 5
    batch["bird"]["obs"][:] = 1
    learner.update(batch)
    fish, birds = (group.reader.obs_rms for group in learner.groups)
    assert fish.count == 0
    assert birds.count == 5
    assert (birds.mean == 1).all()


def set_outputs(stack: Any, values: Any) -> None:
    """Networks whose outputs are always the same, ``[N, out]``."""
    with torch.no_grad():
        stack.flat.zero_()
        stack.shape.layers(stack.flat)[-1][1][:, 0] = torch.as_tensor(values, dtype=torch.float32)


def read(learner: MADDPG, batch: Any) -> list[Any]:
    return [group.reader.transitions(to_torch(dict(batch))) for group in learner.groups]


def test_target_actions_are_smoothed() -> None:
    env, memory = filled("simple_spread", continuous_actions=True)
    batch = memory.sample(500)
    found = []
    for std in (0.0, 0.1):
        learner = MADDPG(MADDPGConfig(target_policy_noise=std), env.groups, seed=0)
        with torch.no_grad():
            found.append(learner._target_action(learner.groups[0], read(learner, batch)[0]))
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
    for name, stack in stacks(learner.groups[0]).items():
        if name.startswith("critic"):
            set_outputs(stack, [[10.0]] * 2)
    batch = memory.sample(32)
    batch.reward[:] = 2.0
    for terminated, wanted in ((False, 11.0), (True, 2.0)):
        ended = copy.deepcopy(dict(batch))
        ended["discount"] = np.full(32, 0.0 if terminated else 0.9, np.float32)
        rows = to_torch(ended)
        data = [group.reader.transitions(rows) for group in learner.groups]
        _, td_error = learner.critic_loss(0, data, [torch.zeros(2, 32, 5)], rows)
        assert np.allclose(10 + td_error.detach(), wanted), terminated


def test_a_truncated_step_goes_on_from_what_was_seen() -> None:
    _, memory = filled("simple_spread", steps=60, config=MADDPGConfig(gamma=0.9))
    batch = memory.sample(500)
    assert (batch.discount[batch.truncated] == np.float32(0.9)).all()
    assert batch.truncated.any()


def test_sharing_is_one_network() -> None:
    for name in ("simple_spread", "simple_tag"):
        for options in ({}, {"continuous_actions": True}):
            env, memory = filled(name, **options)
            learner = MADDPG(MADDPGConfig(parameter_sharing=("all",)), env.groups, seed=0)
            found = [stack.shape.num_networks for group in learner.groups for stack in stacks(group).values()]
            assert set(found) == {1}
            losses = [learner.update(memory.sample(64))[0] for _ in range(60)]
            if name == "simple_spread":
                assert np.mean([loss["critic_loss"] for loss in losses[-10:]]) < losses[0]["critic_loss"]
            actor = learner.actor(env.num_envs, explore=True)
            env.step(actor.act(env.reset(seed=3))[0])


def test_shared_networks_are_told_who_it_is() -> None:
    """The gradient of a policy that all share, agent by agent with modules of torch."""
    env, memory = filled("simple_spread")
    config = MADDPGConfig(parameter_sharing=("all",), max_grad_norm=0.0, logit_penalty=0.0)
    learner = MADDPG(config, env.groups, seed=0)
    nets = stacks(learner.groups[0])
    data = read(learner, memory.sample(16))
    obs, action = data[0].obs, data[0].action
    actor, critic = as_module(nets["actor"], 0, "relu"), as_module(nets["critic_0"], 0, "relu")
    state = learner.networks.generator.get_state()
    learner.actor_loss(0, data).backward()
    random = torch.Generator()
    random.set_state(state)
    chance = -torch.log(torch.rand(3, 5, 16, generator=random)).transpose(1, 2)
    loss = torch.zeros(())
    for i in range(3):
        tag = torch.eye(3)[i].expand(16, 3)
        soft = torch.softmax(actor(torch.cat([tag, obs[i]], dim=1)) - torch.log(chance[i]), dim=-1)
        own = nn.functional.one_hot(soft.argmax(dim=-1), 5).float() + soft - soft.detach()
        actions = [own if j == i else action[j] for j in range(3)]
        loss = loss - critic(torch.cat([tag, *obs, *actions], dim=1)).mean()
    loss.backward()
    layers = [layer for layer in actor if isinstance(layer, nn.Linear)]
    wanted = torch.cat([torch.cat([layer.weight.grad.T.flatten(), layer.bias.grad]) for layer in layers])
    torch.testing.assert_close(nets["actor"].flat.grad[0], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["simple_tag", "marines_3v3"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise": "ou", "twin_q": True, "target_policy_noise": 0.1},
        {"epsilon": 0.3, "split_critic_input": True},
        {"ensemble": 2, "infer_policies": True, "normalize_obs": True, "normalize_reward": True, "batch_size": 32},
        {"ensemble": 2, "parameter_sharing": ("all",), "infer_policies": True},
    ],
)
def test_a_state_goes_on_bit_for_bit(name: str, settings: dict[str, Any]) -> None:
    options = {"continuous_actions": True} if "noise" in settings and name == "simple_tag" else {}
    config = MADDPGConfig(**settings)
    env, memory = filled(name, config=config, **options)
    one = MADDPG(config, env.groups, seed=0)
    acting = one.actor(env.num_envs, explore=True)
    obs = env.reset(seed=0)

    def on(*pairs: tuple[MADDPG, Any]) -> None:
        """A step, and an update, of learners who should be the same."""
        nonlocal obs
        actions = [actor.act(obs, 100) for _, actor in pairs]
        for action, _ in actions:
            for key, value in action.items():
                np.testing.assert_array_equal(value, actions[0][0][key])
        step = env.step(actions[0][0])
        obs = step.obs
        batch = memory.sample(32)
        for learner, actor in pairs:
            actor.reset(step.ended)
            learner.update(batch)
            actor.load(learner.weights())

    for _ in range(30):
        on((one, acting))
    two = MADDPG(config, env.groups, seed=9)
    again = two.actor(env.num_envs, explore=True, seed=5)
    two.load_state_dict(one.state_dict())
    again.load_state_dict(acting.state_dict())
    again.load(two.weights())
    for _ in range(30):
        on((one, acting), (two, again))
    state = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(state[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        env, memory = filled("simple_spread")
        learner = MADDPG(MADDPGConfig(), env.groups, seed=5)
        for _ in range(50):
            learner.update(memory.sample(64))
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


def test_weights_of_priorities_count() -> None:
    env, memory = filled("simple_spread")
    batch = memory.sample(32)
    flats = []
    for weights in (np.ones(32, np.float32), np.zeros(32, np.float32)):
        learner = MADDPG(MADDPGConfig(per_alpha=0.6), env.groups, seed=0)
        before = stacks(learner.groups[0])["critic_0"].flat.detach().clone()
        _, (errors,) = learner.update({**batch, "weights": weights})
        flats.append(stacks(learner.groups[0])["critic_0"].flat.detach() - before)
        assert errors.shape == (1, 3, 32)
        assert (errors != 0).all()
    assert flats[0].abs().max() > 0
    assert flats[1].abs().max() == 0


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"gamma": 1.5}, "gamma"),
        ({"hidden": ()}, "hidden"),
        ({"ddpg": ("prey",)}, "group"),
    ],
)
def test_refusals(settings: dict[str, Any], about: str) -> None:
    with refused(rl.errors.OptionError, about):
        MADDPG(MADDPGConfig(**settings), envs.make("simple_tag").groups, seed=0)


def test_shares_add_up_to_one() -> None:
    env = envs.make("simple_tag", num_envs=8, continuous_actions=True)
    learner = MADDPG(MADDPGConfig(simplex_actions=True), env.groups, seed=0)
    for explore in (True, False):
        for action in learner.actor(8, explore=explore).act(env.reset(seed=0))[0].values():
            np.testing.assert_allclose(action.sum(axis=2), 1, rtol=1e-5)
            assert action.min() >= 0


def test_embedding_keeps_observations_and_actions_apart() -> None:
    env, memory = filled("simple_spread")
    learner = MADDPG(MADDPGConfig(split_critic_input=True), env.groups, seed=0)
    for _ in range(3):
        learner.update(memory.sample(64))
    first = stacks(learner.groups[0])["critic_0"].named_layers()["layers.0.weight"]
    seen = 3 * 18
    assert not first[:, :seen, 32:].any()
    assert not first[:, seen:, :32].any()
    assert first[:, :seen, :32].all()
    assert first[:, seen:, 32:].all()
