"""Settings as TOML."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import recollect as rc
from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.registry import algorithms
from recollect.train import RunConfig
from recollect.train.config_file import read_config, write_config


def other(value: Any, field: str) -> Any:
    """A value that differs from the default and may be."""
    special: dict[str, Any] = {
        "activation": "tanh",
        "init": "xavier",
        "noise": "ou",
        "hidden": (7, 9),
        "ddpg": ("agent",),
        "parameter_sharing": ("agent", "adversary"),
        "gamma": 0.5,
        "tau": 0.5,
        "lr_end": 0.5,
        "epsilon": 0.25,
        "per_alpha": 0.5,
    }
    others: dict[str, Any] = {
        "mixer": "vdn",
        "optimizer": "rmsprop",
        "reward": "mean",
        "epsilon_start": 0.5,
        "epsilon_end": 0.5,
        "td_lambda": 0.5,
        "encoder": "package.module:function",
        "network": "package.module:function",
        "td_loss": "huber",
        "device": "cpu",
        "log": ("csv", "wandb"),
        "critic": not value if isinstance(value, bool) else "auto" if value == "own" else "own",
        "neighbours": "none" if value == "all" else "all",
        "value_norm": "popart",
        "gae_lambda": 0.5,
        "target_tau": 0.5,
        "target_entropy": 0.25,
        "per_beta": 0.5,
        "distribution": "qr",
        "hindsight": "final",
        "priority_eta": 0.5,
        "v_min": -5.0,
        "log_std": -1.0,
        "cluster": "local",
        "durability": "none",
    }
    if isinstance(value, int) and field in ("hidden", "parameter_sharing"):
        return not value if isinstance(value, bool) else value + 3
    if field in {**special, **others}:
        return {**special, **others}[field]
    return not value if isinstance(value, bool) else value + 3


TYPO = f"algorithm must be one of {', '.join(algorithms())}, got 'maddgp'. Did you mean 'maddpg'?"


def test_toml_there_and_back(tmp_path: Path) -> None:
    algorithm = MADDPGConfig(
        **{f.name: other(getattr(MADDPGConfig(), f.name), f.name) for f in dataclasses.fields(MADDPGConfig)}
    )
    run = RunConfig(steps=7, env_options={"N": 5, "continuous_actions": True, "a word": 'a "b" ☺'})
    path = tmp_path / "config.toml"
    write_config(path, "simple_spread", algorithm, run)
    assert read_config(path, trust=True) == ("simple_spread", algorithm, run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "env = 'a'\nalgorithm = 'maddgp'",
            TYPO,
        ),
        ("algorithm = 'maddpg'", "env must be the name of an environment, got None"),
        (
            "env = 'a'\nalgorithm = 'maddpg'\n[runs]\nseed = 1",
            "key must be one of env, algorithm, run, maddpg, got 'runs'. Did you mean 'run'?",
        ),
        ("env = 'a'\nalgorithm = 'maddpg'\n[maddpg]\ngama = 1", "got 'gama'. Did you mean 'gamma'?"),
        ("env = 'a'\nalgorithm = 'maddpg'\n[maddpg]\ngamma = 'x'", "maddpg.gamma must be a float, got 'x'"),
        ("env = 'a'\nalgorithm = 'maddpg'\n[maddpg]\ngamma = 2", "gamma must be from 0 to 1, got 2.0"),
        ("env = 'a'\nalgorithm = 'maddpg'\nrun = 5", "[run] must be a table, got 5"),
        (
            "env = 'a'\nalgorithm = 'maddpg'\n[maddpg]\nnoise = 'gausian'",
            "noise must be one of gaussian, ou, got 'gausian'",
        ),
        ("env = 'a'\nalgorithm = 'maddpg'\n[maddpg]\nhidden = ['a']", "maddpg.hidden must be a list of int, got ['a']"),
        (
            "env = 'a'\nalgorithm = 'maddpg'\n[maddpg]\nactor_lr = inf",
            "actor_lr must be finite and at least 0, got inf",
        ),
        ("env =", "config must be a TOML file that can be read, got"),
    ],
)
def test_files_that_cannot_be(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(rc.errors.OptionError) as caught:
        read_config(path)
    assert message in str(caught.value)
