"""DQN and its options against the same written plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from dqn_plain import NOISY, PlainDQN
from gymnasium import spaces
from lonely_world import lonely
from played import played

from refusals import refused
from relive import envs
from relive.agents.dqn import DQN, DQNConfig
from relive.agents.q_actor import QActor
from relive.envs.one_agent import OneAgent
from relive.errors import OptionError

SMALL: dict[str, Any] = {"hidden": (6,), "batch_size": 9, "capacity": 300, "lr": 1e-2}
RAINBOW: dict[str, Any] = {**DQNConfig().presets["rainbow"], "atoms": 7, "v_min": -6.0, "v_max": 6.0}


def filled(settings: dict[str, Any], steps: int = 40, **options: Any) -> tuple[Any, Any, DQN]:
    """An environment, a memory of some play, and a learner."""
    env = lonely(**options)
    return env, *played(DQNConfig(**{**SMALL, **settings}), env, steps)


CASES: list[dict[str, Any]] = [
    {},
    {"double_q": False, "n_step": 3, "max_grad_norm": 0.1},
    {"dueling": True, "per_alpha": 0.6, "target_update_interval": 2, "tau": 1.0},
    {"distribution": "c51", "atoms": 6, "v_min": -4.0, "v_max": 5.0},
    {"distribution": "qr", "atoms": 5, "per_alpha": 0.6, "n_step": 2},
    {"noisy_sigma": 0.5, "hidden": (5, 4)},
    RAINBOW,
    {"hidden": (), "frame_stack": 3},
]


@pytest.mark.parametrize("settings", CASES)
def test_updates_are_a_plain_loops(settings: dict[str, Any]) -> None:
    _, memory, learner = filled(settings)
    plain = PlainDQN(learner)
    if learner.config.per_alpha:
        memory.update_priorities(memory.sample(20), 0.01 + np.arange(20))
    for _ in range(4):
        batch = memory.sample(9)
        generator = torch.Generator()
        generator.set_state(learner.networks.generator.get_state())
        _, error = learner.update(batch)
        np.testing.assert_allclose(error, plain.update(batch, generator), rtol=1e-4, atol=1e-5)
    for network, streams in ((learner.online, plain.online), (learner.target, plain.target)):
        parts: Any = [network.advantage, network.value][: len(streams)]
        for part, layers in zip(parts, streams, strict=True):
            if learner.config.noisy_sigma:
                found = [getattr(layer, name) for layer in part.layers for name in NOISY]
            else:
                found = [value[0] for value in part.named_layers().values()]
            for mine, other in zip(found, layers, strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", CASES)
def test_a_state_goes_on_bit_for_bit(settings: dict[str, Any]) -> None:
    env, memory, one = filled(settings)
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


@pytest.mark.parametrize("settings", [CASES[0], RAINBOW])
def test_the_same_seed_gives_the_same_parameters(settings: dict[str, Any]) -> None:
    found = []
    for _ in range(2):
        _, memory, learner = filled(settings)
        for _ in range(50):
            learner.learn(memory)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.parametrize("settings", CASES)
def test_elsewhere(settings: dict[str, Any]) -> None:
    """On "meta", where whoever asks for a number or mixes devices is refused."""
    env, memory, learner = filled(settings)
    elsewhere = learner.config.learner(env, device="meta")
    metrics, error = elsewhere.update(memory.sample(9))
    assert all(value.device.type == "meta" for value in (*metrics.values(), error))


def test_rows_hold_what_environments_give_and_nothing_else() -> None:
    env, memory, _ = filled(RAINBOW)
    assert memory.schema == env.schema
    assert memory.sample(4)["obs"].shape == (4, 3)


@pytest.mark.parametrize("kind", ["dict", "frame"])
def test_it_reads_what_there_is_to_see(kind: str) -> None:
    _, memory, learner = filled({"frame_stack": 4 if kind == "frame" else 1}, kind=kind)
    metrics = learner.learn(memory)
    assert np.isfinite(list(metrics.values())).all()


def test_an_actor_sees_the_frames_that_its_learner_does() -> None:
    env, memory, _ = filled({"frame_stack": 3, "n_step": 1}, steps=0, kind="frame")
    seen: list[Any] = []

    class Watched(torch.nn.Module):
        start, plain = 2, None

        def forward(self, obs: Any) -> Any:
            seen.append(obs.numpy().copy())
            return torch.zeros(len(obs), 3)

    actor = QActor(Watched(), 3, torch.device("cpu"), explore=False, seed=0, epsilon=lambda _: 0.0, frame_stack=3)  # type: ignore[arg-type]
    obs = env.reset(seed=3)
    for _ in range(20):
        step = env.step(actor.act(obs)[0])
        memory.append(**step.row)
        actor.reset(step.ended)
        obs = step.obs
    read = {stack.tobytes() for stack in memory.sample(2000)["obs"]}
    assert read == {stack.tobytes() for stacks in seen for stack in stacks}


def test_an_actor_goes_on_from_its_state() -> None:
    env, _, learner = filled({"frame_stack": 3, "noisy_sigma": 0.5}, steps=0, kind="frame")
    one, two = (learner.actor(3, explore=True, seed=seed) for seed in (1, 2))
    obs, step = env.reset(seed=3), None
    for _ in range(4):
        step = env.step(one.act(obs)[0])
        one.reset(step.ended)
        obs = step.obs
    two.load_state_dict(one.state_dict())
    assert one.act(obs)[0]["action"].tolist() == two.act(obs)[0]["action"].tolist()
    assert all(torch.equal(value, two.state_dict()[key]) for key, value in one.state_dict().items())


def test_exploration() -> None:
    """All by chance at first, a share of it later, and choices from two to four."""
    _, _, learner = filled({"epsilon_steps": 100, "epsilon_end": 0.3})
    obs = lonely(500).reset(seed=0)
    best = learner.actor(500, explore=False).act(obs)[0]["action"]
    actor = learner.actor(500, explore=True, seed=0)
    other = [float(np.mean(actor.act(obs, step)[0]["action"] != best)) for step in (0, 50, 1000)]
    assert np.allclose(other, [2 / 3, 0.65 * 2 / 3, 0.3 * 2 / 3], atol=0.08)
    assert set(np.unique(actor.act(obs)[0]["action"])) == {2, 3, 4}


def test_noise_explores_and_goes() -> None:
    _, memory, learner = filled({"noisy_sigma": 3.0})
    obs = lonely(200).reset(seed=0)
    actor = learner.actor(200, explore=True, seed=0)
    actor.load(learner.weights())
    chosen = [actor.act(obs)[0]["action"].tolist() for _ in range(8)]
    assert len({tuple(each) for each in chosen}) > 1
    best = learner.actor(200, explore=False)
    learner.update(memory.sample(9))
    best.load(learner.weights())
    assert best.act(obs)[0]["action"].tolist() == best.act(obs)[0]["action"].tolist()
    with torch.no_grad():
        mean = learner.policy_module()(torch.from_numpy(obs["obs"]))[0]
    assert best.act(obs)[0]["action"].tolist() == mean.tolist()


def test_actions_that_may_not_be_taken() -> None:
    """Neither while acting nor in a target, however good they look."""
    env, memory, learner = filled({})
    batch = dict(memory.sample(9))
    with torch.no_grad():
        bias = learner.online.advantage.named_layers()["layers.1.bias"]  # type: ignore[operator]
        bias[..., 0] = 99.0
    batch["next_avail_actions"] = np.tile([False, True, False], (9, 1))
    every = torch.from_numpy(batch["next_obs"])
    wanted = torch.as_tensor(batch["reward"]) + torch.as_tensor(batch["discount"]) * learner.target(every)[:, 1]
    q = learner.online(torch.from_numpy(batch["obs"]))[range(9), batch["action"].astype(int) - 2]
    _, error = learner.update(batch)
    torch.testing.assert_close(error, (wanted - q).detach().float(), rtol=1e-5, atol=1e-5)
    actor = learner.actor(3, explore=True, seed=0)
    seen = {**env.reset(seed=0), "avail_actions": np.array([[False, True, False]] * 3)}
    assert all(actor.act(seen, step)[0]["action"].tolist() == [3, 3, 3] for step in (0, 10**6))


def test_refusals() -> None:
    with refused(OptionError, "environment", got="'simple_spread' with 3"):
        OneAgent(envs.make("simple_spread"))
    with refused(OptionError, "action space"):
        DQNConfig().learner(lonely(actions="box"))
    with refused(OptionError, "v_min", got="2.0"):
        DQNConfig(distribution="c51", v_min=2.0, v_max=1.0)
    with refused(OptionError, "noisy_sigma", got="0.5"):
        DQNConfig(noisy_sigma=0.5, network="torch.nn:Linear")
    env = lonely()
    env.groups = (replace(env.groups[0], obs_space=spaces.Box(0, 1, (5, 5, 3))),)
    with refused(OptionError, "observation space"):
        DQNConfig(frame_stack=4).learner(env)
