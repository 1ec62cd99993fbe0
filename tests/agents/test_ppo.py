"""PPO, A2C and PG of one agent against the same written plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from lonely_world import lonely
from mappo_plain import Player
from ppo_plain import PlainPPO

import relive as rl
from refusals import refused
from relive.agents.ppo import PPOConfig
from relive.agents.registry import find
from relive.errors import OptionError

SMALL: dict[str, Any] = {"hidden": (5,), "rollout": 11, "epochs": 2, "minibatches": 1, "lr": 1e-2}


def ready(settings: dict[str, Any], **options: Any) -> tuple[Any, Any, Any]:
    """An environment, a rollout and a learner."""
    config, env = PPOConfig(**{**SMALL, **settings}), lonely(**options)
    return env, config.memory(env, lanes=3, seed=0), config.learner(env, seed=1)


GRU: dict[str, Any] = {"recurrent": True, "chunk_length": 4}
LSTM: dict[str, Any] = {**GRU, "rnn": "lstm"}
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"value_clip": 0.1, "entropy": 0.05, "max_grad_norm": 10.0, "value_norm": "none"}, {}),
    ({"normalize_obs": True, "normalize_reward": True, "bootstrap_on_truncation": False}, {}),
    ({"normalize_advantage": False, "value_clip": 0.3}, {"actions": "box"}),
    ({"clip": 0.0, "epochs": 1}, {"actions": "several"}),
    ({"critic": False, "clip": 0.0}, {}),
    (GRU, {}),
    ({**GRU, "normalize_obs": True, "value_clip": 0.2}, {"actions": "box"}),
    (LSTM, {}),
]


@pytest.mark.parametrize(("settings", "options"), CASES)
def test_updates_are_a_plain_loops(settings: dict[str, Any], options: dict[str, Any]) -> None:
    env, memory, learner = ready(settings, **options)
    player, plain = Player(env, memory, learner), PlainPPO(learner, env)
    for _ in range(3):
        steps = player.rollout()
        plain.learn(steps, player.obs)
        learner.learn(memory, player.obs)
    network = learner.network
    torch.testing.assert_close(network.policy.networks.flat[0], plain.policy, rtol=1e-5, atol=2e-5)
    if plain.critic is not None:
        torch.testing.assert_close(network.critic.networks.flat[0], plain.critic, rtol=1e-5, atol=2e-5)
    if plain.log_std is not None:
        torch.testing.assert_close(network.head.log_std[0], plain.log_std, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(("settings", "options"), CASES)
def test_a_state_goes_on_bit_for_bit(settings: dict[str, Any], options: dict[str, Any]) -> None:
    found = []
    for interrupted in (False, True):
        env, memory, learner = ready({**settings, "minibatches": 2}, **options)
        player = Player(env, memory, learner)
        for turn in range(3):
            player.rollout()
            if interrupted and turn == 1:
                state, acting = learner.state_dict(), player.actor.state_dict()
                learner = learner.config.learner(env, seed=9)
                learner.load_state_dict(state)
                player.learner, player.actor = learner, learner.actor(3, explore=True, seed=9)
                player.actor.load_state_dict(acting)
            learner.learn(memory, player.obs)
        found.append(learner.state_dict())
    for key, value in found[0].items():
        assert torch.equal(found[1][key], value), key


@pytest.mark.parametrize("settings", [{}, GRU])
def test_the_same_seed_gives_the_same_parameters(settings: dict[str, Any]) -> None:
    found = []
    for _ in range(2):
        env, memory, learner = ready({**settings, "minibatches": 3})
        player = Player(env, memory, learner)
        for _ in range(9):
            player.rollout()
            learner.learn(memory, player.obs)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


def test_rows_hold_what_the_algorithm_needs_and_nothing_else() -> None:
    env, memory, _ = ready({})
    assert memory.schema == env.schema.with_fields(log_prob=rl.Field(), value=rl.Field())
    _, memory, _ = ready(GRU, actions="box")
    own = [column.key for column in memory.schema]
    assert own == ["obs", "action", "reward", "log_prob", "value", "raw_action", "policy_state", "value_state"]
    _, memory, _ = ready({**GRU, "critic": False})
    assert "value_state" not in memory.schema


@pytest.mark.parametrize("shared", [True, False])
def test_pictures_and_dicts(shared: bool) -> None:
    for kind in ("frame", "dict"):
        env, memory, learner = ready({"shared_encoder": shared, "minibatches": 2}, kind=kind)
        player = Player(env, memory, learner)
        player.rollout()
        metrics = learner.learn(memory, player.obs)
        assert np.isfinite(list(metrics.values())).all()


def test_popart_keeps_values() -> None:
    env, memory, learner = ready({"value_norm": "popart", "lr": 1e-12})
    player = Player(env, memory, learner)
    player.rollout()
    rows = {"obs": torch.from_numpy(player.obs["obs"])}
    before = learner.network.values(learner.network(rows, {}))
    learner.learn(memory, player.obs)
    assert learner.network.norm.std.item() != 1.0
    torch.testing.assert_close(learner.network.values(learner.network(rows, {})), before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rnn", "size"), [("gru", 5), ("lstm", 10)])
def test_the_policy_module_does_what_the_actor_does(rnn: str, size: int) -> None:
    env, _, learner = ready({**GRU, "rnn": rnn, "normalize_obs": True}, actions="box")
    actor, module, obs = learner.actor(3, explore=False), learner.policy_module(), env.reset(seed=0)
    states = [torch.zeros(3, size), torch.zeros(3, size)]
    for _ in range(4):
        action, *states = module(torch.from_numpy(obs["obs"]), *states)
        chosen = actor.act(obs)[0]
        np.testing.assert_allclose(chosen["action"], action.detach(), rtol=1e-5, atol=1e-6)
        step = env.step(chosen)
        states = [state * torch.from_numpy(~step.ended)[:, None] for state in states]
        actor.reset(step.ended)
        obs = step.obs


def test_names() -> None:
    assert [find(name).name for name in ("ppo", "a2c", "pg")] == ["ppo", "a2c", "pg"]


def test_refusals() -> None:
    env = lonely()
    env.groups = (replace(env.groups[0], action_space=spaces.MultiBinary(3)),)
    with refused(OptionError, "action space"):
        PPOConfig().learner(env)
    with refused(OptionError, "hidden", got="()"):
        PPOConfig(hidden=())
    with refused(OptionError, "rnn"):
        PPOConfig(rnn="lstm")
    with refused(OptionError, "recurrent", got="True"):
        PPOConfig(recurrent=True, network="torch.nn:Linear").learner(lonely())
