"""MAPPO, IPPO, MAA2C, IA2C and MFAC against the same written plainly."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mappo_plain import Plain, Player

from refusals import refused
from relive import envs
from relive.agents.mappo import MAPPO, MAPPOConfig
from relive.agents.registry import find
from relive.errors import OptionError
from relive.learn.agent_networks import Packed
from relive.tensors import from_env
from relive.training.export import load_agents, save_agents

SMALL: dict[str, Any] = {
    "hidden": (7,),
    "rollout": 6,
    "epochs": 2,
    "minibatches": 1,
    "actor_lr": 1e-2,
    "critic_lr": 1e-2,
    "eps": 1e-3,
}


MFAC: dict[str, Any] = {"neighbours": "all", "critic": "own", "clip": 0.0, "epochs": 1}


def made(name: str, settings: dict[str, Any], num_envs: int = 3, **options: Any) -> tuple[Any, MAPPO, Player]:
    """An environment, a learner and a player of its policies."""
    config = MAPPOConfig(**{**SMALL, **settings})
    env = envs.make(name, num_envs=num_envs, **options)
    memory, learner = config.memory(env, lanes=num_envs, seed=0), config.learner(env, seed=1)
    with torch.no_grad():  # policies that like some actions better
        for policy in learner.policies:
            policy.networks.networks.flat.uniform_(-0.8, 0.8, generator=torch.Generator().manual_seed(2))
    return env, learner, Player(env, memory, learner)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("simple_spread", {"value_clip": 0.05, "epochs": 3, "parameter_sharing": False}, {"continuous_actions": True}),
    ("simple_spread", {}, {"max_cycles": 4}),
    (
        "simple_spread",
        {"critic": "own", "value_norm": "none", "td_loss": "mse", "max_grad_norm": 0.1},
        {"max_cycles": 4},
    ),
    (
        "simple_spread",
        {"clip": 0.0, "epochs": 1, "reward": "sum", "activation": "tanh"},
        {"max_cycles": 4, "state": True},
    ),
    ("simple_spread", {"recurrent": True, "chunk_length": 4, "reward": "mean"}, {"max_cycles": 5}),
    (
        "simple_spread",
        {"recurrent": True, "chunk_length": 2, "critic": "agent", "parameter_sharing": False},
        {"max_cycles": 5},
    ),
    (
        "simple_spread",
        {"value_clip": 0.05, "value_norm": "popart", "epochs": 3, "clip": 0.05},
        {"continuous_actions": True, "max_cycles": 4},
    ),
    (
        "simple_spread",
        {"n_step": 3, "target_tau": 0.3, "value_norm": "none", "standardize_reward": True},
        {"max_cycles": 9},
    ),
    (
        "simple_spread",
        {"bootstrap_on_truncation": False, "recurrent": True, "recurrent_critic": False},
        {"max_cycles": 4},
    ),
    ("simple_tag", {"critic": "own", "standardize_reward": True, "lr_end": 0.2, "lr_steps": 30}, {"max_cycles": 4}),
    ("simple_adversary", {"critic": "agent", "value_norm": "popart", "normalize_obs": True}, {"max_cycles": 4}),
    (
        "simple_speaker_listener",
        {"critic": "all_obs", "recurrent": True, "reward": "sum", "chunk_length": 3},
        {"max_cycles": 4},
    ),
    ("marines_3v3", {"critic": "state", "recurrent": True, "rollout": 14, "epochs": 1}, {"max_episode_steps": 9}),
    ("marines_3v3", {"critic": "own", "rollout": 14, "epochs": 1, "value_norm": "popart"}, {}),
    ("pettingzoo:leaving_world", {"critic": "own", "rollout": 9}, {}),
    ("simple_spread", {**MFAC, "agent_id": False}, {"max_cycles": 4}),
    ("simple_tag", {**MFAC, "parameter_sharing": False, "critic": "agent"}, {"max_cycles": 4}),
    (
        "simple_spread",
        {"recurrent": True, "rnn": "lstm", "critic": "agent", "parameter_sharing": False},
        {"max_cycles": 5},
    ),
    ("marines_3v3", {**MFAC, "rollout": 14, "recurrent": True}, {"max_episode_steps": 9}),
    ("pettingzoo:leaving_world", {**MFAC, "rollout": 9, "epochs": 2}, {}),
    (
        "pettingzoo:leaving_world",
        {"critic": "all_obs", "rollout": 9, "standardize_reward": True, "normalize_obs": True},
        {},
    ),
    ("pettingzoo:leaving_world", {"critic": "own", "reward": "mean", "recurrent": True, "rollout": 9, "n_step": 2}, {}),
]


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_updates_are_a_plain_loops(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    """Two updates: rows, advantages on the right steps, and every parameter, with masks, deaths and ends anywhere."""
    env, learner, player = made(name, settings, **options)
    plain = Plain(learner, env)
    for _ in range(2):
        steps = player.rollout()
        metrics = learner.learn(player.memory, player.obs)
        found = plain.learn(steps, player.obs)
        assert all(np.isfinite(value) for value in metrics.values())
        for (g, e, agent), each in found.items():
            key = env.groups[g].key
            for t, row in enumerate(each["rows"]):
                extras = steps[t]["extras"]
                assert extras[key("value")][e, agent] == pytest.approx(row["value"], rel=1e-4, abs=1e-4)
                assert extras[key("log_prob")][e, agent] == pytest.approx(row["log_prob"], rel=1e-4, abs=1e-4)
    for ours, theirs in ((learner.policies, plain.policies), (learner.critics, plain.critics)):
        for module, flats in zip(ours, theirs, strict=True):
            torch.testing.assert_close(module.networks.networks.flat, torch.stack(flats), rtol=1e-5, atol=1e-5)
    for policy, std in zip(learner.policies, plain.log_std, strict=True):
        if std is not None:
            torch.testing.assert_close(policy.head.log_std, std, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_a_state_goes_on_bit_for_bit(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    env, one, player = made(name, settings, **options)
    player.rollout()
    one.learn(player.memory, player.obs)
    two = one.config.learner(env, seed=7)
    two.load_state_dict(one.state_dict())
    other = two.actor(env.num_envs, explore=True, seed=9)
    other.load_state_dict(player.actor.state_dict())
    other.load(two.weights())
    player.actor.load(one.weights())
    said = [actor.act(player.obs)[1] for actor in (other, player.actor)]
    for key, value in said[0].items():
        np.testing.assert_array_equal(value, said[1][key])
    player.rollout()
    metrics = []
    for learner in (one, two):
        memory = copy.deepcopy(player.memory)
        metrics.append(learner.learn(memory, player.obs))
        assert len(memory) == 0
    assert metrics[0] == metrics[1]
    state = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(state[key], value), key


@pytest.mark.parametrize("settings", [{}, {"recurrent": True, "minibatches": 2, "critic": "own"}])
def test_the_same_seed_gives_the_same_parameters(settings: dict[str, Any]) -> None:
    found = []
    for _ in range(2):
        _, learner, player = made("simple_spread", settings)
        for _ in range(50):
            player.rollout()
            learner.learn(player.memory, player.obs)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.parametrize(
    ("settings", "options", "fields"),
    [
        ({}, {}, {"log_prob", "value"}),
        ({}, {"continuous_actions": True}, {"log_prob", "value", "raw_action"}),
        ({"recurrent": True}, {}, {"log_prob", "value", "policy_state", "value_state"}),
        ({"recurrent": True, "recurrent_critic": False}, {}, {"log_prob", "value", "policy_state"}),
    ],
)
def test_rows_hold_what_learning_needs(settings: dict[str, Any], options: dict[str, Any], fields: set[str]) -> None:
    env, _, player = made("simple_spread", settings, **options)
    given = {column.key for column in env.schema}
    assert {column.key for column in player.memory.schema} - given == fields
    assert set(player.rollout()[0]["extras"]) == fields
    learner = player.learner
    assert learner.actor(3, explore=False).act(player.obs)[1] == {}


def test_acting_changes_nothing_in_the_learner() -> None:
    _, learner, player = made("simple_spread", {"recurrent": True, "normalize_obs": True})
    before = learner.state_dict()
    player.rollout()
    after = learner.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_policies_need_no_state() -> None:
    """Statistics of the state are the critics'; a policy alone is not shown it."""
    _, learner, player = made("simple_spread", {"normalize_obs": True}, state=True)
    player.rollout()
    learner.learn(player.memory, player.obs)
    module = learner.policy_module()
    with torch.no_grad():
        (action,) = module(torch.from_numpy(player.obs["obs"]))
    np.testing.assert_array_equal(action.numpy(), learner.actor(3, explore=False).act(player.obs)[0]["action"])


@pytest.mark.parametrize("settings", [{"init": "uniform"}, {"init": "orthogonal"}, {"recurrent": True}])
def test_policies_begin_nearly_by_chance(settings: dict[str, Any]) -> None:
    learner = MAPPOConfig(**settings).learner(envs.make("simple_spread"), seed=0)
    obs = {"obs": torch.randn(50, 3, 18, generator=torch.Generator().manual_seed(0))}
    network = learner.policies[0].networks
    packed = Packed([50], network.initial_state(50)) if network.state_size else None
    with torch.no_grad():
        distribution: Any = learner.policies[0](obs, packed)[0]
    assert (distribution.log_probs.exp() - 0.2).abs().max() < 0.05


@pytest.mark.parametrize("parameter_sharing", [True, False])
def test_deviations_are_written_for_each_agent(parameter_sharing: bool, tmp_path: Path) -> None:
    env = envs.make("simple_spread", continuous_actions=True, N=5)
    config = MAPPOConfig(hidden=(4,), parameter_sharing=parameter_sharing)
    one, two = (config.learner(env, seed=seed) for seed in (1, 2))
    with torch.no_grad():
        one.policies[0].head.log_std.uniform_(-1, 1)  # type: ignore[operator, union-attr]
    save_agents(one, env.groups, tmp_path)
    load_agents(two, env.groups, tmp_path)
    state = two.agent_modules()[""].state_dict()
    for key, value in one.agent_modules()[""].state_dict().items():
        assert torch.equal(state[key], value), key


def test_evaluation_is_the_mode() -> None:
    _, learner, player = made("marines_3v3", {})
    actor = learner.actor(3, explore=False)
    with torch.no_grad():
        distribution, _ = learner.policies[0](from_env(player.obs))
    np.testing.assert_array_equal(actor.act(player.obs)[0]["action"], distribution.mode().numpy())


def test_what_may_not_be_done_is_not_done() -> None:
    _, _, player = made("marines_3v3", {"rollout": 40})
    for step in player.rollout():
        chosen = np.take_along_axis(step["obs"]["avail_actions"], step["row"]["action"][..., None], axis=2)
        assert chosen.all()


def test_continuous_actions_are_clipped_and_kept_as_drawn() -> None:
    env, _, player = made("simple_spread", {"log_std": 1.0}, continuous_actions=True)
    box = env.groups[0].action_space
    rows = player.rollout()
    raw = np.stack([step["extras"]["raw_action"] for step in rows])
    done = np.stack([step["row"]["action"] for step in rows])
    assert (done >= box.low).all()
    assert (done <= box.high).all()
    np.testing.assert_allclose(done, np.clip(0.5 + 0.5 * raw, 0, 1), atol=1e-6)
    assert (np.abs(raw) > 1).any()


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"critic": "else"}, "critic"),
        ({"clip": -0.1}, "clip"),
        ({"hidden": ()}, "hidden"),
        (
            {"target_tau": 0.1},
            "value_norm",
        ),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], about: str) -> None:
    with refused(OptionError, about):
        MAPPOConfig(**settings)


def test_environments_that_do_not_fit() -> None:
    env = envs.make("simple_spread")
    with refused(OptionError, "critic", got="'state'"):
        MAPPOConfig(critic="state").learner(env)
    with refused(OptionError, "recurrent", got="True"):
        MAPPOConfig(recurrent=True, network=torch.nn.Linear).learner(env)
    with refused(OptionError, "value_norm", got="'popart'"):
        MAPPOConfig(value_norm="popart", network=torch.nn.Linear).learner(env)


def test_names() -> None:
    names = {
        (critic, clip): MAPPOConfig(critic=critic, clip=clip).name  # type: ignore[arg-type]
        for critic in ("auto", "own")
        for clip in (0.2, 0.0)
    }
    assert list(names.values()) == ["mappo", "maa2c", "ippo", "ia2c"]
    for name in ("mappo", "ippo", "maa2c", "ia2c"):
        config = find(name)
        for preset in config.presets.values():
            replace(config, **preset)  # none is refused
