"""COMA against the same written plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from coma_plain import PlainCOMA
from mappo_plain import Player

from refusals import refused
from relive import envs
from relive.agents.coma import COMA, COMAConfig
from relive.agents.rollout_batches import read_epochs
from relive.errors import OptionError

SMALL: dict[str, Any] = {"hidden": (6,), "rollout": 5, "actor_lr": 1e-2, "critic_lr": 1e-2, "eps": 1e-3}
SMALL |= {"critic_epochs": 2, "minibatches": 1, "target_update_interval": 2}


def made(name: str, settings: dict[str, Any], num_envs: int = 2, **options: Any) -> tuple[Any, COMA, Player]:
    """An environment, a learner and a player of its policies."""
    config = COMAConfig(**{**SMALL, **settings})
    env = envs.make(name, num_envs=num_envs, **options)
    memory, learner = config.memory(env, lanes=num_envs, seed=0), config.learner(env, seed=1)
    with torch.no_grad():  # policies that like some actions better
        for policy in learner.policies:
            policy.networks.networks.flat.uniform_(-0.8, 0.8, generator=torch.Generator().manual_seed(2))
    return env, learner, Player(env, memory, learner)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("simple_spread", {}, {"max_cycles": 4}),
    ("simple_spread", {"recurrent": True, "reward": "sum", "td_lambda": 0.5}, {"max_cycles": 3, "state": True}),
    ("simple_spread", {"n_step": 2, "tau": 0.3, "standardize_reward": False}, {"max_cycles": 4}),
    ("simple_spread", {"recurrent": True, "rnn": "lstm"}, {"max_cycles": 3, "state": True}),
    ("simple_speaker_listener", {"normalize_advantage": False, "recurrent": True}, {"max_cycles": 3}),
    ("marines_2v3", {"rollout": 14, "recurrent": True, "critic_epochs": 1}, {"max_episode_steps": 9}),
    ("pettingzoo:leaving_world", {"rollout": 9, "parameter_sharing": False, "max_grad_norm": 0.1}, {}),
]


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_updates_are_a_plain_loops(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    env, learner, player = made(name, settings, **options)
    plain = PlainCOMA(learner, env)
    for _ in range(2):
        steps = player.rollout()
        drawn = torch.Generator().manual_seed(0)
        drawn.set_state(learner.networks.generator.get_state())
        learner.learn(player.memory, player.obs)
        plain.learn(steps, player.obs, drawn)
    for ours, theirs in ((learner.policies, plain.policies), (learner.critics, plain.critics)):
        for module, flats in zip(ours, theirs, strict=True):
            torch.testing.assert_close(module.networks.networks.flat, torch.stack(flats), rtol=1e-5, atol=1e-5)
    for target, flats in zip(learner.targets, plain.targets, strict=True):
        torch.testing.assert_close(target.networks.networks.flat, torch.stack(flats), rtol=1e-5, atol=1e-5)


def test_the_baseline_by_three_numbers() -> None:
    """Q of 1, 2 and 6, each as likely as the others: the third is worth 3 more than their mean."""
    _, learner, player = made("simple_spread", {})
    player.rollout()
    rows = player.learner.obs_norm(learner_rows(player))
    actions = learner.joint(rows)

    class Fixed(torch.nn.Module):
        def forward(self, batch: Any, actions: Any) -> torch.Tensor:
            return torch.tensor([1.0, 2.0, 6.0, 3.0, 3.0]).expand_as(actions[0])

    learner.critics[0] = Fixed()  # type: ignore[call-overload]
    uniform = type("Policy", (), {"log_probs": torch.full_like(actions[0], 0.2).log()})
    advantage = learner.advantage(0, rows, actions, uniform)  # type: ignore[arg-type]
    wanted = torch.tensor([-2.0, -1.0, 3.0, 0.0, 0.0])[actions[0].argmax(dim=-1)]
    torch.testing.assert_close(advantage, wanted)


def learner_rows(player: Player) -> Any:
    """All steps of a rollout as tensors."""
    from relive.tensors import to_torch

    return to_torch(player.memory.rows())


def test_what_an_agent_did_is_not_in_its_critics_input() -> None:
    _, learner, player = made("simple_spread", {})
    player.rollout()
    rows = learner_rows(player)
    actions = learner.joint(rows)
    q = learner.critics[0](rows, actions)
    other = actions[0].clone()
    other[:, 1] = other[:, 1].roll(1, dims=-1)
    changed = (learner.critics[0](rows, [other]) - q).abs().amax(dim=(0, 2)) > 1e-6
    assert changed.tolist() == [True, False, True]


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_a_state_goes_on_bit_for_bit(name: str, settings: dict[str, Any], options: dict[str, Any]) -> None:
    import copy

    env, one, player = made(name, {**settings, "normalize_obs": True}, **options)
    player.rollout()
    one.learn(player.memory, player.obs)
    two = one.config.learner(env, seed=7)
    two.load_state_dict(one.state_dict())
    player.rollout()
    found = [learner.learn(copy.deepcopy(player.memory), player.obs) for learner in (one, two)]
    assert found[0] == found[1]
    state = two.state_dict()
    for key, value in one.state_dict().items():
        assert torch.equal(state[key], value), key


def test_the_same_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        _, learner, player = made("simple_spread", {"minibatches": 3})
        for _ in range(50):
            player.rollout()
            learner.learn(player.memory, player.obs)
        found.append(learner.state_dict())
    assert all(torch.equal(value, found[1][key]) for key, value in found[0].items())


@pytest.mark.parametrize("settings", [{}, {"recurrent": True}])
def test_rows_hold_what_learning_needs(settings: dict[str, Any]) -> None:
    env, _, player = made("simple_spread", settings)
    more = {column.key for column in player.memory.schema} - {column.key for column in env.schema}
    assert more == ({"policy_state"} if settings else set())


def test_elsewhere() -> None:
    """On "meta", where whoever asks for a number or mixes devices is refused."""
    _, learner, player = made("marines_2v3", {"recurrent": True, "rollout": 9})
    elsewhere = learner.config.learner(player.env, device="meta")
    player.rollout()
    player.memory.finish(learner._next_values(player.memory, player.obs), value=learner._chosen_values(player.memory))
    for rows, packed in read_epochs(
        player.memory, player.env.groups, 1, minibatches=1, length=9, device=elsewhere.networks.device
    ):
        metrics = elsewhere.update_critics(rows) | elsewhere.update_policies(rows, packed)
    assert all(value.device.type == "meta" for value in metrics.values())


def test_opponents_are_told() -> None:
    config, tag = COMAConfig(), envs.make("simple_tag")
    said = config.advice(tag, {"adversary/return": 5.0, "agent/return": -5.0})
    assert said == (
        "coma learns the mean of the rewards of adversary, agent, as one team. For opponents use mappo or maddpg."
    )
    assert config.advice(tag, {"adversary/return": 5.0, "agent/return": 5.0}) == ""


def test_refusals() -> None:
    with refused(OptionError, "action space"):
        COMAConfig().learner(envs.make("simple_spread", continuous_actions=True))
    with refused(OptionError, "td_lambda", got="2"):
        COMAConfig(td_lambda=2)
    for preset in COMAConfig().presets.values():
        replace(COMAConfig(), **preset)
