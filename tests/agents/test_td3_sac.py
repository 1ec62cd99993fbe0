"""TD3, DDPG and SAC of one agent against the same written plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from lonely_world import lonely
from off_policy_plain import PlainSAC, PlainTD3
from played import played

from refusals import refused
from relive.agents.registry import find
from relive.agents.sac import SACConfig
from relive.agents.td3 import TD3Config
from relive.errors import OptionError

SMALL: dict[str, Any] = {"hidden": (6,), "batch_size": 7, "capacity": 300, "actor_lr": 1e-2, "critic_lr": 1e-2}


def filled(config: Any, steps: int = 40, **options: Any) -> tuple[Any, Any, Any]:
    """An environment, a memory of some play, and a learner."""
    env = lonely(**options)
    return env, *played(replace(config, **SMALL), env, steps, 10**6)


BOX = {"actions": "box"}
CASES: list[tuple[Any, dict[str, Any]]] = [
    (TD3Config(), BOX),
    (TD3Config(n_step=3, per_alpha=0.6, max_grad_norm=0.1, policy_delay=1), BOX),
    (replace(find("ddpg"), td_loss="huber", noise="ou"), BOX),
    (SACConfig(), BOX),
    (SACConfig(per_alpha=0.6, n_step=2, max_grad_norm=0.1, alpha_lr=0.1), BOX),
    (SACConfig(alpha_lr=0.1, td_loss="huber"), {}),
    (SACConfig(alpha_lr=0.0, alpha=0.2), {}),
]


@pytest.mark.parametrize(("config", "options"), CASES)
def test_updates_are_a_plain_loops(config: Any, options: dict[str, Any]) -> None:
    env, memory, learner = filled(config, **options)
    plain: Any = (PlainSAC if config.name == "sac" else PlainTD3)(learner, env)
    if config.per_alpha:
        memory.update_priorities(memory.sample(20), 0.01 + np.arange(20))
    for _ in range(4):
        batch = memory.sample(7)
        generator = torch.Generator()
        generator.set_state(learner.networks.generator.get_state())
        _, error = learner.update(batch)
        np.testing.assert_allclose(error, np.abs(plain.update(batch, generator)).mean(axis=0), rtol=1e-4, atol=1e-4)
    pairs = [(learner.critics.networks.flat, plain.critics)]
    if config.name == "sac":
        pairs += [
            (learner.policy.policy.networks.flat, plain.policy),
            (learner.target.networks.flat, plain.critics_target),
        ]
        torch.testing.assert_close(learner.temperature.log_alpha, plain.log_alpha, rtol=1e-5, atol=1e-6)
    else:
        pairs += [
            (learner.policy.network.flat, plain.policy),
            (learner.policy_target.network.flat, plain.policy_target),
        ]
        pairs += [(learner.critics_target.networks.flat, plain.critics_target)]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, torch.stack(theirs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("config", "options"), CASES)
def test_a_state_goes_on_bit_for_bit(config: Any, options: dict[str, Any]) -> None:
    env, memory, one = filled(config, **options)
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


@pytest.mark.parametrize(("config", "options"), [CASES[0], CASES[3], CASES[5]])
def test_the_same_seed_gives_the_same_parameters(config: Any, options: dict[str, Any]) -> None:
    found = []
    for _ in range(2):
        _, memory, learner = filled(config, **options)
        for _ in range(50):
            learner.learn(memory)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.parametrize(("config", "options"), CASES)
def test_elsewhere(config: Any, options: dict[str, Any]) -> None:
    """On "meta", where whoever asks for a number or mixes devices is refused."""
    env, memory, learner = filled(config, **options)
    elsewhere = learner.config.learner(env, device="meta")
    metrics, error = elsewhere.update(memory.sample(7))
    assert all(value.device.type == "meta" for value in (*metrics.values(), error))


@pytest.mark.parametrize(("config", "options"), CASES)
def test_rows_hold_what_environments_give_and_nothing_else(config: Any, options: dict[str, Any]) -> None:
    env, memory, _ = filled(config, **options)
    assert memory.schema == env.schema


@pytest.mark.parametrize(("config", "options"), [(TD3Config(), BOX), (SACConfig(), BOX), (SACConfig(), {})])
def test_the_first_steps_are_by_chance(config: Any, options: dict[str, Any]) -> None:
    _, _, learner = filled(replace(config, learning_starts=10), steps=0, **options)
    actor = learner.config.learner(lonely(500, **options), seed=1).actor(500, explore=True, seed=0)
    obs = lonely(500, **options).reset(seed=0)
    action = actor.act(obs, 9)[0]["action"]
    if options:
        assert action.min() < -1.9
        assert action.max() > 2.9
        assert abs(float(action.mean()) - 0.5) < 0.15
    else:
        assert np.allclose(np.bincount(action, minlength=5)[2:] / 500, 1 / 3, atol=0.08)
    again = actor.act(obs, 10)[0]["action"]
    assert not np.array_equal(action, again)


def test_noise_is_of_its_scale_and_within_the_box() -> None:
    _, _, learner = filled(TD3Config(noise_scale=0.1), steps=0, **BOX)
    obs = lonely(800, **BOX).reset(seed=0)
    best = learner.actor(800, explore=False).act(obs)[0]["action"]
    action = learner.actor(800, explore=True, seed=0).act(obs, 10**6)[0]["action"]
    assert abs(float((action - best).std()) - 0.25) < 0.03
    assert action.min() >= -2
    assert action.max() <= 3


@pytest.mark.parametrize(("config", "options"), [(TD3Config(), BOX), (SACConfig(), BOX), (SACConfig(), {})])
def test_the_policy_module_does_what_the_actor_does(config: Any, options: dict[str, Any]) -> None:
    env, _, learner = filled(config, **options)
    obs = env.reset(seed=0)
    action = learner.policy_module()(torch.from_numpy(obs["obs"]))[0].detach()
    np.testing.assert_allclose(learner.actor(3, explore=False).act(obs)[0]["action"], action, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("config", [TD3Config(), SACConfig()])
@pytest.mark.parametrize("kind", ["dict", "frame"])
def test_pictures_and_dicts(config: Any, kind: str) -> None:
    _, memory, learner = filled(config, kind=kind, **BOX)
    assert np.isfinite(list(learner.learn(memory).values())).all()


def test_choices_that_may_not_be_taken_are_worth_nothing() -> None:
    _, memory, learner = filled(SACConfig())
    batch = dict(memory.sample(7))
    learner.policy.group = replace(learner.policy.group, avail=True)
    batch["avail_actions"] = np.tile([True, True, False], (7, 1))
    batch["next_avail_actions"] = np.tile([False, True, False], (7, 1))
    with torch.no_grad():
        q = learner.target(torch.from_numpy(batch["next_obs"])).amin(dim=0)[:, 1]
    wanted = torch.as_tensor(batch["reward"]) + torch.as_tensor(batch["discount"]) * q  # one choice has no entropy
    with torch.no_grad():
        now = learner.critics(torch.from_numpy(batch["obs"]))[:, range(7), batch["action"].astype(int) - 2]
    _, error = learner.update(batch)
    torch.testing.assert_close(error, (wanted - now).abs().mean(dim=0), rtol=1e-4, atol=1e-5)


def test_refusals() -> None:
    with refused(OptionError, "action space"):
        TD3Config().learner(lonely())
    with refused(OptionError, "action space"):
        SACConfig().learner(lonely(actions="several"))
    env = lonely(**BOX)
    env.groups = (replace(env.groups[0], action_space=spaces.Box(-np.inf, np.inf, (2,))),)
    with refused(OptionError, "action space"):
        SACConfig().learner(env)
    with refused(OptionError, "noise", got="'white'"):
        TD3Config(noise="white")  # type: ignore[arg-type]
