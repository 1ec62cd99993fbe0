"""QMIX's settings: what they refuse, what presets pin, when updates are due, what values can be."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import pytest

import relive
from refusals import refused
from relive import envs
from relive.agents.qmix import QMIXConfig
from relive.errors import OptionError

FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "video": False}


def test_settings_that_cannot_be() -> None:
    env = envs.make("simple_spread", continuous_actions=True)
    with refused(OptionError, "action space"):
        QMIXConfig().learner(env)
    env = envs.make("simple_spread")
    with refused(OptionError, "reward", got="'own'"):
        QMIXConfig(reward="own").learner(env)
    for wrong, name, got in (
        ({"mixer": "max"}, "mixer", "'max'"),
        ({"batch_size": 0}, "batch_size", "0"),
        ({"td_lambda": 1.5}, "td_lambda", "1.5"),
        ({"lr": 0.0}, "lr", "0.0"),
        ({"update_every": 0.0}, "update_every", "0.0"),
        ({"batch_size": 9, "buffer_size": 8}, "batch_size", "9"),
    ):
        with refused(OptionError, name, got=got):
            QMIXConfig(**wrong)


def test_presets() -> None:
    """All that PyMARL's default.yaml and qmix.yaml say, EPyMARL's and PyMARL2's, whatever the defaults are."""
    pymarl = {
        "mixer": "qmix",
        "gamma": 0.99,
        "batch_size": 32,
        "buffer_size": 5000,
        "learning_starts": 32,
        "update_every": 1.0,
        "target_update_interval": 200,
        "tau": 0.0,
        "double_q": True,
        "td_lambda": 0.0,
        "n_step": 1,
        "bootstrap_on_truncation": True,
        "clip_targets": False,
        "per_alpha": 0.0,
        "optimizer": "rmsprop",
        "lr": 5e-4,
        "lr_end": 1.0,
        "eps": 1e-5,
        "max_grad_norm": 10.0,
        "recurrent": True,
        "hidden": 64,
        "parameter_sharing": True,
        "agent_id": True,
        "last_action": True,
        "mixing_units": 32,
        "hypernet_units": 64,
        "epsilon_start": 1.0,
        "epsilon_end": 0.05,
        "epsilon_steps": 50_000,
        "reward": "sum",
        "standardize_reward": False,
    }
    adam = {**pymarl, "optimizer": "adam", "eps": 0.0}
    wanted = {
        "pymarl": pymarl,
        "epymarl": {
            **adam,
            "bootstrap_on_truncation": False,
            "recurrent": False,
            "last_action": False,
            "standardize_reward": True,
        },
        "pymarl2": {
            **adam,
            "lr": 1e-3,
            "batch_size": 128,
            "learning_starts": 128,
            "update_every": 8.0,
            "td_lambda": 0.6,
            "epsilon_steps": 100_000,
        },
    }
    wanted_alone = {
        "pymarl": {},
        "epymarl": {"lr": 3e-4, "hidden": 128, "recurrent": True, "epsilon_steps": 200_000},
        "pymarl2": {"lr": 5e-4, "batch_size": 32, "learning_starts": 32, "td_lambda": 0.0},
    }
    mixers: tuple[Literal["qmix", "qplex", "vdn", "none"], ...] = ("qmix", "qplex", "vdn", "none")
    for mixer in mixers:
        presets = QMIXConfig(mixer=mixer).presets
        assert list(presets) == list(wanted)
        for name, values in wanted.items():
            found = dataclasses.asdict(QMIXConfig(mixer=mixer, **presets[name]))
            del found["lr_episodes"]  # over which nothing shrinks
            assert [found.pop(key) for key in ("encoder", "network", "td_loss")] == ["auto", "auto", "mse"]
            assert found == {**values, "mixer": mixer, **(wanted_alone[name] if mixer == "none" else {})}


def test_updates_come_as_often_as_asked() -> None:
    for every, due in ((1.0, [0, 1, 2, 11]), (2.0, [0, 1, 1, 6]), (0.5, [0, 1, 3, 21]), (0.25, [0, 1, 5, 41])):
        config = QMIXConfig(learning_starts=5, update_every=every)
        assert [config.schedule(4).updates_due(0, episodes) for episodes in (4, 5, 6, 15)] == due


def test_more_episodes_than_there_is_room_for() -> None:
    with refused(OptionError, "buffer_size", got="1000000000"):
        QMIXConfig(buffer_size=10**9).memory(envs.make("marines_4v4"), lanes=1, seed=0)


def test_opponents_are_no_team(tmp_path: Path) -> None:
    few = {**FEW, "steps": 80}
    with pytest.warns(
        UserWarning, match=r"^qmix learns the sum of the rewards of adversary, agent, as one team\. For opponents"
    ):
        relive.train(QMIXConfig(hidden=8), "simple_tag", folder=tmp_path / "run", **few)
    relive.train(QMIXConfig(hidden=8, mixer="none"), "simple_tag", folder=tmp_path / "alone", **few)  # warns of nothing
    relive.train(QMIXConfig(hidden=8), "simple_speaker_listener", folder=tmp_path / "team", **few)  # nor of a team
