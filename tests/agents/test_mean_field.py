"""Mean actions of neighbours, in MF-Q and MF-AC."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from mappo_plain import Player

from relive import envs
from relive.agents.mappo import MAPPOConfig
from relive.agents.mean_field import MeanField
from relive.agents.registry import find

BATTLE: dict[str, Any] = {"map_size": 15, "max_episode_steps": 9, "positions": True}


def test_mean_actions_by_hand() -> None:
    """Four agents, of whom the last is dead; the first two are near each other, the third is far."""
    env = envs.make("battle", map_size=15, positions=True)
    group = replace(env.groups[0], agents=("a", "b", "c", "d"))
    last = torch.eye(21)[torch.tensor([[3, 5, 7, 9]])]
    seen = {
        "red": {
            "agent_mask": torch.tensor([[True, True, True, False]]),
            "position": torch.tensor([[[1.0, 1.0], [2.0, 1.0], [9.0, 9.0], [1.0, 2.0]]]),
        }
    }
    every = MeanField([group], "all", 0.0).mean(group, seen, last)[0]
    assert every[0].nonzero().ravel().tolist() == [5, 7]
    assert every[0, 5] == 0.5
    assert every[2].nonzero().ravel().tolist() == [3, 5]
    near = MeanField([group], "radius", 1.5).mean(group, seen, last)[0]
    assert near[0].nonzero().ravel().tolist() == [5]
    assert near[0, 5] == 1
    assert near[1].nonzero().ravel().tolist() == [3]
    assert not near[2].any()  # nobody is near


def test_mfac_reads_mean_actions() -> None:
    """Policies and critics of MFAC change their minds with what neighbours do; those of IA2C do not."""
    env = envs.make("battle", num_envs=2, **BATTLE)
    settings = {"hidden": (6,), "rollout": 5, "encoder": "flat"}
    config = replace(find("mfac"), **settings)
    memory, learner = config.memory(env, lanes=2, seed=0), config.learner(env, seed=1)
    with torch.no_grad():
        for policy in learner.policies:
            policy.networks.networks.flat.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(0))
    player = Player(env, memory, learner)
    steps = player.rollout()
    assert not steps[0]["extras"]["red/mean_action"].any()
    done = np.eye(21)[steps[0]["row"]["red/action"]]
    count = done.shape[1]
    wanted = (done.sum(axis=1, keepdims=True) - done) / (count - 1)
    np.testing.assert_allclose(steps[1]["extras"]["red/mean_action"], wanted, atol=1e-6)
    before = learner.state_dict()
    learner.learn(memory, player.obs)
    assert any(not torch.equal(value, before[key]) for key, value in learner.state_dict().items())
    rows = {key: torch.tensor(value) for key, value in _red(steps[1]["obs"]).items()}
    values = [
        learner.critics[0].value({"red": {**rows, "mean_action": mean}})[0]
        for mean in (torch.zeros(2, count, 21), torch.ones(2, count, 21) / 21)
    ]
    assert (values[0] - values[1]).abs().max() > 1e-4
    alone = MAPPOConfig(critic="own", **settings)  # type: ignore[arg-type]
    assert "red/mean_action" not in {column.key for column in alone.memory(env, lanes=2, seed=0).schema}


def _red(obs: Any) -> dict[str, Any]:
    return {key.removeprefix("red/"): value for key, value in obs.items() if key.startswith("red/")}


def test_mfac_goes_on_bit_for_bit() -> None:
    env = envs.make("simple_spread", num_envs=2, max_cycles=4)
    config = replace(find("mfac"), hidden=(6,), rollout=6, recurrent=True)
    memory, one = config.memory(env, lanes=2, seed=0), config.learner(env, seed=1)
    player = Player(env, memory, one)
    player.rollout()
    one.learn(memory, player.obs)
    two = config.learner(env, seed=3)
    two.load_state_dict(one.state_dict())
    player.rollout()
    found = [learner.learn(copy.deepcopy(memory), player.obs) for learner in (one, two)]
    assert found[0] == found[1]
