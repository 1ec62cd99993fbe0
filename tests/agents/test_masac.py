"""MASAC and ISAC against the same written plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from masac_plain import PlainMASAC
from played import played

from refusals import refused
from relive import envs
from relive.agents.masac import MASAC, MASACConfig
from relive.errors import OptionError

SMALL: dict[str, Any] = {"hidden": (6,), "batch_size": 7, "capacity": 200, "actor_lr": 1e-2, "critic_lr": 1e-2}


def filled(name: str, settings: dict[str, Any], steps: int = 30, **options: Any) -> tuple[Any, Any, MASAC]:
    """An environment, a memory of some play, and a learner."""
    env = envs.make(name, num_envs=3, **options)
    return env, *played(MASACConfig(**{**SMALL, **settings}), env, steps)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("simple_spread", {}, {"max_cycles": 4}),
    ("simple_spread", {"critic": "own", "n_step": 3, "per_alpha": 0.6}, {"max_cycles": 4}),
    ("simple_spread", {"parameter_sharing": False, "alpha_lr": 0.1}, {"max_cycles": 4, "continuous_actions": True}),
    ("simple_tag", {"critic": "own", "alpha_lr": 0.0, "max_grad_norm": 0.1}, {"continuous_actions": True}),
    ("simple_speaker_listener", {"target_entropy": 0.9}, {"max_cycles": 4}),
    ("marines_3v3", {"alpha_lr": 0.1}, {"max_episode_steps": 9}),
    ("pettingzoo:leaving_world", {}, {}),
    ("pettingzoo:leaving_world", {"critic": "own", "parameter_sharing": False}, {}),
]


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_updates_are_a_plain_loops(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    env, memory, learner = filled(name, settings, **options)
    plain = PlainMASAC(learner, env)
    if learner.config.per_alpha:
        batch = memory.sample(20)
        memory.update_priorities(batch, 0.01 + np.arange(20))
    for _ in range(3):
        batch = memory.sample(7)
        drawn = torch.Generator().manual_seed(0)
        drawn.set_state(learner.networks.generator.get_state())
        learner.update(batch)
        plain.update(batch, drawn)
    for policy, flats in zip(learner.policies, plain.policies, strict=True):
        torch.testing.assert_close(policy.networks.networks.flat, torch.stack(flats), rtol=1e-5, atol=1e-5)
    for ours, theirs in ((learner.critics, plain.critics), (learner.targets, plain.targets)):
        for twins, others in zip(ours, theirs, strict=True):
            for critic, flats in zip(twins, others, strict=True):
                torch.testing.assert_close(critic.networks.networks.flat, torch.stack(flats), rtol=1e-5, atol=1e-5)  # type: ignore[union-attr, arg-type]
    for temperature, alpha in zip(learner.temperatures, plain.log_alphas, strict=True):
        torch.testing.assert_close(temperature.log_alpha, alpha, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_a_state_goes_on_bit_for_bit(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    env, memory, one = filled(name, {**settings, "normalize_obs": True}, **options)
    one.update(memory.sample(7))
    two = one.config.learner(env, seed=7)
    two.load_state_dict(one.state_dict())
    for _ in range(3):
        batch = memory.sample(7)
        for learner in (one, two):
            learner.update(batch)
    state = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(state[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        _, memory, learner = filled("simple_spread", {})
        for _ in range(50):
            learner.learn(memory)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.parametrize(("name", "settings", "options"), CASES[1:6])
def test_elsewhere(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    """On "meta", where whoever asks for a number or mixes devices is refused."""
    env, memory, learner = filled(name, settings, **options)
    elsewhere = learner.config.learner(env, device="meta")
    metrics, td_errors = elsewhere.update(memory.sample(7))
    assert all(value.device.type == "meta" for value in (*metrics.values(), *td_errors))


def test_the_temperature_falls_where_there_is_entropy_to_spare() -> None:
    """A policy by pure chance has more than it should: alpha falls; one that always does the same has less."""
    env, memory, learner = filled("simple_spread", {"alpha_lr": 0.1})
    with torch.no_grad():
        learner.policies[0].networks.networks.flat.zero_()
    before = learner.temperatures[0].alpha.item()
    learner.update(memory.sample(7))
    assert learner.temperatures[0].alpha.item() < before
    other = learner.config.learner(env, seed=1)
    with torch.no_grad():
        other.policies[0].networks.networks.flat.zero_()
        other.policies[0].networks.networks.named_layers()["layers.1.bias"][0, 0, 2] = 30.0  # type: ignore[operator]
    other.update(memory.sample(7))
    assert other.temperatures[0].alpha.item() > before


def test_the_target_by_three_numbers() -> None:
    """Q of 1 and 3, each as likely as the other, alpha 0.5: their mean 2 and half of log 2."""
    drawn = (torch.tensor([[[1.0, 0.0]]]), torch.full((1, 1, 2), 0.5).log(), torch.full((1, 1, 2), 0.5))
    _, _, learner = filled("simple_spread", {})
    value = learner._soft_value(torch.tensor([[[1.0, 3.0]]]), drawn, torch.tensor(0.5))
    assert value.item() == pytest.approx(2 + 0.5 * np.log(2))


def test_rows_hold_what_environments_give_and_nothing_else() -> None:
    env, memory, _ = filled("simple_spread", {})
    assert memory.schema == env.schema


def test_the_preset_is_what_xuance_has() -> None:
    found = MASACConfig(**MASACConfig().presets["xuance"])
    assert (found.gamma, found.batch_size, found.update_every, found.hidden) == (0.95, 256, 25, (64, 64))
    assert (found.actor_lr, found.critic_lr, found.tau, found.alpha) == (0.01, 0.001, 0.001, 0.01)


def test_refusals() -> None:
    env = envs.make("simple_spread")
    env.groups = (replace(env.groups[0], action_space=spaces.MultiDiscrete([2, 3])),)  # type: ignore[attr-defined]
    with refused(OptionError, "action space"):
        MASACConfig().learner(env)
    with refused(OptionError, "alpha", got="0"):
        MASACConfig(alpha=0)
