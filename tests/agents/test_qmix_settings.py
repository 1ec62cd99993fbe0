"""QMIX's settings: what they refuse, what presets pin, when updates are due, what values can be."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import pytest
import torch

from recollect import envs
from recollect.agents.qmix import QMIXConfig
from recollect.errors import OptionError


def test_settings_that_cannot_be() -> None:
    env = envs.make("simple_spread", continuous_actions=True)
    with pytest.raises(OptionError, match="action space must be Discrete, got"):
        QMIXConfig().learner(env, 0)
    env = envs.make("simple_spread")
    with pytest.raises(OptionError) as refused:
        QMIXConfig(reward="own").learner(env, 0)
    assert (
        str(refused.value) == "reward must be sum or mean where values are mixed, got 'own'. Use --mixer none for IQL."
    )
    for wrong, message in (
        ({"mixer": "max"}, "mixer must be one of mono, sum, none, got 'max'"),
        ({"batch": 0}, "batch must be finite and at least 1, got 0"),
        ({"td_lambda": 1.5}, "td_lambda must be from 0 to 1, got 1.5"),
        ({"lr": 0.0}, "lr must be above 0, got 0.0"),
        ({"update_every": 0.0}, "update_every must be above 0, got 0.0"),
        ({"batch": 9, "episodes": 8}, "batch must be at most the 8 episodes that are remembered, got 9"),
    ):
        with pytest.raises(OptionError) as refused:
            QMIXConfig(**wrong)
        assert str(refused.value) == message


def test_presets() -> None:
    """All that PyMARL's default.yaml and qmix.yaml say, EPyMARL's and PyMARL2's, whatever the defaults are."""
    pymarl = {
        "mixer": "mono",
        "gamma": 0.99,
        "batch": 32,
        "episodes": 5000,
        "warmup": 32,
        "update_every": 1.0,
        "target_every": 200,
        "tau": 0.0,
        "double": True,
        "td_lambda": 0.0,
        "n_step": 1,
        "bootstrap": True,
        "bounded": False,
        "prioritized": 0.0,
        "optimiser": "rmsprop",
        "lr": 5e-4,
        "lr_end": 1.0,
        "eps": 1e-5,
        "clip": 10.0,
        "recurrent": True,
        "hidden": 64,
        "share": True,
        "agent_id": True,
        "last_action": True,
        "mixing_units": 32,
        "hyper_units": 64,
        "epsilon_start": 1.0,
        "epsilon_end": 0.05,
        "epsilon_steps": 50_000,
        "reward": "sum",
        "standardize_reward": False,
    }
    adam = {**pymarl, "optimiser": "adam", "eps": 0.0}
    wanted = {
        "pymarl": pymarl,
        "epymarl": {
            **adam,
            "bootstrap": False,
            "recurrent": False,
            "last_action": False,
            "standardize_reward": True,
        },
        "pymarl2": {
            **adam,
            "lr": 1e-3,
            "batch": 128,
            "warmup": 128,
            "update_every": 8.0,
            "td_lambda": 0.6,
            "epsilon_steps": 100_000,
        },
    }
    wanted_alone = {
        "pymarl": {},
        "epymarl": {"lr": 3e-4, "hidden": 128, "recurrent": True, "epsilon_steps": 200_000},
        "pymarl2": {"lr": 5e-4, "batch": 32, "warmup": 32, "td_lambda": 0.0},
    }
    mixers: tuple[Literal["mono", "sum", "none"], ...] = ("mono", "sum", "none")
    for mixer in mixers:
        presets = QMIXConfig(mixer=mixer).presets
        assert list(presets) == list(wanted)
        for name, values in wanted.items():
            found = dataclasses.asdict(QMIXConfig(mixer=mixer, **presets[name]))
            del found["lr_episodes"]  # over which nothing shrinks
            assert found == {**values, "mixer": mixer, **(wanted_alone[name] if mixer == "none" else {})}


def test_updates_come_as_often_as_asked() -> None:
    for every, due in ((1.0, [0, 1, 2, 11]), (2.0, [0, 1, 1, 6]), (0.5, [0, 1, 3, 21]), (0.25, [0, 1, 5, 41])):
        config = QMIXConfig(warmup=5, update_every=every)
        assert [config.due(0, episodes) for episodes in (4, 5, 6, 15)] == due


@pytest.mark.parametrize(
    ("gamma", "rewards", "bounds"),
    [
        (0.5, [-1.0, 3.0], (-2.0, 6.0)),
        (0.5, [-3.0, -1.0], (-6.0, -1.0)),  # an episode may end after one more step
        (0.5, [1.0, 3.0], (1.0, 6.0)),
        (0.0, [-1.0, 3.0], (-1.0, 3.0)),
        (1.0, [-1.0, 3.0], (-math.inf, math.inf)),
        (1.0, [0.0, 3.0], (0.0, math.inf)),
    ],
)
def test_what_rewards_can_add_up_to(gamma: float, rewards: list[float], bounds: tuple[float, float]) -> None:
    learner = QMIXConfig(gamma=gamma).learner(envs.make("marines_2v2"), 0)
    assert learner._bounds() == (-math.inf, math.inf)
    for seen in (rewards, [sum(rewards) / 2]):  # what was seen is kept in mind
        learner._take_in(torch.tensor(seen), torch.ones(len(seen)))
        assert learner._bounds() == bounds


def test_a_rare_reward_stays_possible() -> None:
    """It is many deviations away by now, however few it was when it was seen."""
    learner = QMIXConfig(gamma=0.0, standardize_reward=True).learner(envs.make("marines_2v2"), 0)
    learner._take_in(torch.tensor([0.0, 1.0]), torch.ones(2))
    assert learner._bounds() == (-1.0, 1.0)
    learner._take_in(torch.zeros(898), torch.ones(898))
    assert learner._bounds()[1] == learner._standard(torch.tensor([1.0])) == pytest.approx(899**0.5)


def test_more_episodes_than_there_is_room_for() -> None:
    with pytest.raises(
        OptionError, match=r"^episodes must fit in memory, got 1000000000. Remember fewer episodes \(--epis"
    ):
        QMIXConfig(episodes=10**9).memory(envs.make("marines_4v4"), 0)
