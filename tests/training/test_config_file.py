"""Settings as TOML."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from other_settings import other

import relive as rl
from refusals import refused
from relive.agents.maddpg import MADDPGConfig
from relive.training import RunConfig
from relive.training.config_file import read_config, write_config


def test_toml_there_and_back(tmp_path: Path) -> None:
    algorithm = MADDPGConfig(
        **{f.name: other(getattr(MADDPGConfig(), f.name), f.name) for f in dataclasses.fields(MADDPGConfig)}
    )
    run = RunConfig(steps=7, env_options={"N": 5, "continuous_actions": True, "a word": 'a "b" ☺'})
    path = tmp_path / "config.toml"
    write_config(path, "simple_spread", algorithm, run)
    assert read_config(path, trust=True) == ("simple_spread", algorithm, run)


MADDPG = "env = 'a'\nalgorithm = 'maddpg'\n"


@pytest.mark.parametrize(
    ("text", "name", "got"),
    [
        ("env = 'a'\nalgorithm = 'maddgp'", "algorithm", "'maddgp'"),
        ("algorithm = 'maddpg'", "env", "None"),
        (MADDPG + "[runs]\nseed = 1", "key", "'runs'"),
        (MADDPG + "[maddpg]\ngama = 1", "key of [maddpg]", "'gama'"),
        (MADDPG + "[maddpg]\ngamma = 'x'", "maddpg.gamma", "'x'"),
        (MADDPG + "[maddpg]\ngamma = 2", "gamma", "2.0"),
        (MADDPG + "run = 5", "[run]", "5"),
        (MADDPG + "[maddpg]\nnoise = 'gausian'", "noise", "'gausian'"),
        (MADDPG + "[maddpg]\nhidden = ['a']", "maddpg.hidden", "['a']"),
        (MADDPG + "[maddpg]\nactor_lr = inf", "actor_lr", "inf"),
        ("env =", "config", None),
    ],
)
def test_files_that_cannot_be(text: str, name: str, got: str | None, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with refused(rl.errors.OptionError, name, got=got):
        read_config(path)
