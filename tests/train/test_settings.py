"""Settings as TOML, and every flag of the command."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import recollect as rc
from recollect import cli
from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.registry import algorithms
from recollect.cli.train import _flags, _texts
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


@pytest.mark.parametrize("name", list(algorithms()))
def test_every_flag_reaches_its_setting(name: str) -> None:
    default, run = algorithms()[name], RunConfig()
    fields = [(default, f.name) for f in dataclasses.fields(default)]
    fields += [(run, f.name) for f in dataclasses.fields(run) if f.name not in ("env_options", "imports")]
    assert not {f for _, f in fields[: -len(dataclasses.fields(run)) + 2]} & {f.name for f in dataclasses.fields(run)}
    for owner, field in fields:
        wanted = other(getattr(owner, field), field)
        base = default
        if field == "target_tau":
            base = dataclasses.replace(default, value_norm="none")
        elif field == "n_step" and name == "mfq":
            base = dataclasses.replace(default, neighbours="none")
        flag = "--" + field.replace("_", "-")
        if isinstance(wanted, bool):
            arguments = [flag if wanted else "--no-" + field.replace("_", "-")]
        else:
            arguments = [flag, *map(str, wanted if isinstance(wanted, tuple) else [wanted])]
        found = _flags(base, run, arguments)
        assert getattr(found.algorithm if owner is default else found.run, field) == wanted
        changed = dataclasses.replace(base if owner is default else owner, **{field: wanted})
        assert (found.algorithm, found.run) == ((changed, run) if owner is default else (default, changed))


@pytest.mark.parametrize("kind", [RunConfig, *dict.fromkeys(type(each) for each in algorithms().values())])
def test_every_setting_is_explained(kind: type[Any]) -> None:
    assert set(_texts(kind)) >= {f.name for f in dataclasses.fields(kind)}


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


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    flags = [
        "--steps",
        "1000",
        "--learning-starts",
        "200",
        "--batch-size",
        "32",
        "--hidden",
        "8",
        "--num-envs",
        "8",
        "--eval-every",
        "400",
    ]
    flags += ["--eval-episodes", "3", "--folder", str(folder), "--option", "N=2", "--option", "continuous_actions=true"]
    assert cli.main(["train", "maddpg", "simple_spread", *flags]) == 0
    out = capsys.readouterr().out
    assert "of 1,000 steps" in out
    assert "1,000 steps  return -" in out
    assert str(folder / "curve.png") in out
    assert str(folder / "episode.gif") in out
    _, _, run = read_config(folder / "config.toml")
    assert run.env_options == {"N": 2, "continuous_actions": True}
    assert cli.main(["train", "--resume", str(folder), "--steps", "1_200"]) == 0
    first, *_ = capsys.readouterr().out.split("\n")
    assert first.startswith("     1,200 of 1,200 steps"), "what was found before it was stopped is not told again"
    copy = tmp_path / "copy"
    assert cli.main(["train", "--config", str(folder / "config.toml"), "--steps", "400", "--folder", str(copy)]) == 0
    assert read_config(copy / "config.toml")[2].env_options == {"N": 2, "continuous_actions": True}
    assert cli.main(["algorithms"]) == 0
    assert "maddpg  MADDPG:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["maddgp", "simple"],
            TYPO,
        ),
        (["maddpg"], "environment must follow the algorithm, got nothing. `recollect envs` lists them."),
        (["maddpg", "simpel"], "environment must be one that there is, got 'simpel'. Did you mean 'simple'?"),
        (["maddpg", "simple", "--option", "N"], "option must be given as NAME=VALUE, got 'N'"),
        (
            ["maddpg", "simple", "--option", "N=3"],
            "option of simple must be one of max_cycles, continuous_actions, state, velocity_first, raw_actions, "
            "got 'N'",
        ),
        (["maddpg", "simple", "--seeds", "1", "1"], "seeds must differ, got 1 1"),
        (["maddpg", "gymnasium:Nope-v1"], "environment must be one that Gymnasium can make, got 'Nope-v1'."),
        (["--resume=a", "--steps", "x"], "--steps must be a whole number, got 'x'"),
        (["--resume"], "--resume must be followed by a value, got nothing"),
        (
            ["--resume", "a", "--seed", "3"],
            "flag must be --steps, --device, --threads, --import or --trust beside --resume, got --seed.",
        ),
        (["--resume", "a", "--steps", "x"], "--steps must be a whole number, got 'x'"),
    ],
)
def test_the_command_refuses(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--help"]) == 0
    assert "usage: recollect train ALGORITHM ENVIRONMENT" in capsys.readouterr().out
    assert cli.main(["train"]) == 2
    with pytest.raises(SystemExit):
        cli.main(["train", "maddpg", "simple", "--stepz", "3"])
    shown = capsys.readouterr()
    assert "--steps" in shown.out + shown.err
