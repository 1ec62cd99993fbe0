"""Settings as TOML."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from other_settings import other

import relive as rl
from relive.agents.maddpg import MADDPGConfig
from relive.agents.registry import algorithms
from relive.training import RunConfig
from relive.training.config_file import read_config, write_config

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
    with pytest.raises(rl.errors.OptionError) as caught:
        read_config(path)
    assert message in str(caught.value)
