"""Whole updates on another device: everything that is made in between is made there, and nothing is waited for.

On "meta" tensors have a place and a shape, but no numbers: whoever asks for one, or mixes devices, is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import qmix_world
import torch
from maddpg_plain import filled
from test_mappo import made

from relive.agents.maddpg import MADDPG, MADDPGConfig
from relive.agents.qmix import QMIXConfig
from relive.agents.rollout_batches import read_epochs

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here")


@pytest.mark.parametrize(
    ("name", "options", "settings"),
    [
        ("simple_spread", {}, {}),
        (
            "simple_spread",
            {"continuous_actions": True},
            {"twin_q": True, "target_policy_noise": 0.1, "policy_delay": 2},
        ),
        ("simple_tag", {"continuous_actions": True}, {"simplex_actions": True, "ddpg": ("agent",)}),
        ("simple_tag", {}, {"ensemble": 2, "infer_policies": True, "batch_size": 16}),
        ("marines_3v3", {}, {"normalize_obs": True, "normalize_reward": True, "parameter_sharing": ("all",)}),
        ("simple_spread", {}, {"per_alpha": 0.6, "split_critic_input": True, "td_loss": "huber"}),
    ],
)
def test_maddpg_elsewhere(name: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    config = MADDPGConfig(**settings)
    env, memory = filled(name, config=config, **options)
    learner = MADDPG(config, env.groups, device="meta")
    for _ in range(2):
        metrics, td_errors = learner.update(memory.sample(32), memory.inspect.newest(32))
    assert all(value.device.type == "meta" for value in (*metrics.values(), *td_errors))
    assert all(value.device.type == "meta" for value in learner.networks.modules.state_dict().values())


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("marines_3v3", {}),
        ("marines_3v3", {"mixer": "vdn", "parameter_sharing": False, "recurrent": False}),
        ("marines_3v3", {"mixer": "qplex"}),
        ("simple_adversary", {"mixer": "none", "standardize_reward": True, "n_step": 3}),
        ("simple_spread", {"optimizer": "rmsprop", "td_lambda": 0.0, "tau": 0.1, "double_q": False}),
    ],
)
def test_qmix_elsewhere(name: str, settings: dict[str, Any]) -> None:
    config = QMIXConfig(**{**qmix_world.SMALL, **settings})
    env, memory, _ = qmix_world.filled(name, config)
    learner = config.learner(env, device="meta")
    for _ in range(2):
        metrics, errors = learner.update(memory.sample(4))
    assert all(value.device.type == "meta" for value in (*metrics.values(), errors))


@pytest.mark.parametrize(
    ("name", "settings", "options"),
    [
        ("simple_spread", {}, {}),
        ("simple_tag", {"critic": "own", "value_norm": "popart"}, {"continuous_actions": True}),
        ("marines_3v3", {"recurrent": True, "critic": "agent", "normalize_obs": True, "value_clip": 0.2}, {}),
        ("simple_spread", {"clip": 0.0, "target_tau": 0.1, "value_norm": "none", "n_step": 3}, {}),
    ],
)
def test_mappo_elsewhere(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    _, learner, player = made(name, settings, **options)
    elsewhere = learner.config.learner(player.env, device="meta")
    player.rollout()
    player.memory.finish(learner._next_values(player.memory, player.obs))
    how: dict[str, Any] = {"minibatches": 2, "length": 3, "device": elsewhere.networks.device}
    for rows, packed in read_epochs(player.memory, player.env.groups, 1, **how):
        metrics = elsewhere.update(rows, packed)
    assert all(value.device.type == "meta" for value in metrics.values())
    assert all(value.device.type == "meta" for value in elsewhere.networks.modules.state_dict().values())


@CUDA
@pytest.mark.parametrize("name", ["simple_spread", "marines_3v3"])
def test_cuda_learns_the_same(name: str) -> None:
    config = QMIXConfig(**qmix_world.SMALL)
    env, memory, _ = qmix_world.filled(name, config)
    learners = [config.learner(env, device=device, seed=1) for device in ("cpu", "cuda")]
    for _ in range(3):
        batch = memory.sample(4)
        losses = [float(learner.update(batch)[0]["loss"]) for learner in learners]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    actor = learners[1].actor(4, explore=True)
    action, _ = actor.act(env.reset(seed=0))
    assert all(isinstance(value, np.ndarray) for value in action.values())
