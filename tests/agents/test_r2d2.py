"""R2D2 and DRQN against the same written plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from lonely_world import lonely
from played import played
from r2d2_plain import PlainR2D2

from refusals import refused
from relive.agents.r2d2 import R2D2Config
from relive.agents.registry import find
from relive.errors import OptionError

SMALL: dict[str, Any] = {"hidden": 5, "batch_size": 9, "capacity": 300, "lr": 1e-2}


def filled(config: Any, steps: int = 40, **options: Any) -> tuple[Any, Any, Any]:
    """An environment, a memory of some play, and a learner."""
    env = lonely(**options)
    return env, *played(replace(config, **SMALL), env, steps)


CASES = [
    R2D2Config(length=3, burn_in=2),
    R2D2Config(length=4, burn_in=0, n_step=1, rescale=False, max_grad_norm=0.1),
    R2D2Config(length=2, burn_in=3, n_step=5, target_update_interval=2, tau=1.0, double_q=False),
    R2D2Config(length=9, burn_in=1, per_alpha=0.0),
    replace(find("drqn"), length=3),
    replace(find("drqn"), length=4, burn_in=2, frame_stack=2),
    R2D2Config(length=3, burn_in=2, rnn="lstm"),
]


@pytest.mark.parametrize("config", CASES)
def test_updates_are_a_plain_loops(config: Any) -> None:
    _, memory, learner = filled(config)
    plain = PlainR2D2(learner)
    if config.per_alpha:
        memory.update_priorities(memory.sample(20), 0.01 + np.arange(20))
    for _ in range(4):
        batch = memory.sample(9)
        _, priority = learner.update(batch)
        np.testing.assert_allclose(priority, plain.update(batch), rtol=1e-4, atol=1e-5)
    for network, flat in ((learner.online, plain.online), (learner.target, plain.target)):
        torch.testing.assert_close(network.network.networks.flat[0], flat, rtol=1e-5, atol=1e-5)


def test_stored_states_are_those_that_the_actor_had() -> None:
    """Each with what was seen then; and what it sees next comes of that state and no other."""
    env, memory, learner = filled(R2D2Config(length=2, burn_in=0), steps=0)
    actor, obs, known = learner.actor(3, explore=True, seed=0), env.reset(seed=0), set()
    for _ in range(30):
        action, extras = actor.act(obs)
        known |= {(seen.tobytes(), state.tobytes()) for seen, state in zip(obs["obs"], extras["q_state"], strict=True)}
        step = env.step(action)
        memory.append(**step.row, **extras)
        actor.reset(step.ended)
        obs = step.obs
    batch = memory.sample(300)
    read = {(seen[0].tobytes(), state.tobytes()) for seen, state in zip(batch["obs"], batch["q_state"], strict=True)}
    assert read <= known
    assert len(read) > 50


@pytest.mark.parametrize("config", CASES)
def test_a_state_goes_on_bit_for_bit(config: Any) -> None:
    env, memory, one = filled(config)
    one.update(memory.sample(9))
    two = one.config.learner(env, seed=7)
    two.load_state_dict(one.state_dict())
    for _ in range(3):
        batch = memory.sample(9)
        for learner in (one, two):
            learner.update(batch)
    state = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(state[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        _, memory, learner = filled(CASES[0])
        for _ in range(50):
            learner.learn(memory)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.parametrize("config", CASES)
def test_elsewhere(config: Any) -> None:
    """On "meta", where whoever asks for a number or mixes devices is refused."""
    env, memory, learner = filled(config)
    elsewhere = learner.config.learner(env, device="meta")
    metrics, priority = elsewhere.update(memory.sample(9))
    assert all(value.device.type == "meta" for value in (*metrics.values(), priority))


def test_rows_hold_what_the_algorithm_needs_and_nothing_else() -> None:
    env, memory, _ = filled(CASES[0])
    assert [column.key for column in memory.schema] == [*(column.key for column in env.schema), "q_state"]
    env, memory, _ = filled(CASES[4])
    assert memory.schema == env.schema


@pytest.mark.parametrize(("config", "size"), [(CASES[0], 5), (CASES[-1], 10)])
def test_an_actor_goes_on_from_its_state_and_the_module_does_the_same(config: Any, size: int) -> None:
    env, _, learner = filled(config, steps=0)
    one, two, module = learner.actor(3, explore=False), learner.actor(3, explore=False), learner.policy_module()
    obs, state = env.reset(seed=3), torch.zeros(3, size)
    for _ in range(9):
        action = one.act(obs)[0]["action"]
        best, state = module(torch.from_numpy(obs["obs"]), state)
        assert action.tolist() == best.tolist()
        step = env.step(action)
        one.reset(step.ended)
        state = state * torch.from_numpy(~step.ended)[:, None]
        obs = step.obs
    two.load_state_dict(one.state_dict())
    assert one.act(obs)[0]["action"].tolist() == two.act(obs)[0]["action"].tolist()
    assert all(torch.equal(value, two.state_dict()[key]) for key, value in one.state_dict().items())


def test_pictures_and_dicts() -> None:
    for kind, frames in (("dict", 1), ("frame", 4)):
        _, memory, learner = filled(replace(CASES[0], frame_stack=frames), kind=kind)
        assert np.isfinite(list(learner.learn(memory).values())).all()


def test_names_and_refusals() -> None:
    assert [find(name).name for name in ("r2d2", "drqn")] == ["r2d2", "drqn"]
    with refused(OptionError, "action space"):
        R2D2Config().learner(lonely(actions="box"))
    with refused(OptionError, "length", got="0"):
        R2D2Config(length=0)
