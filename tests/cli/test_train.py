"""relive train: every flag, its words, and what is refused."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from other_settings import other

import relive as rl
from relive import cli
from relive.agents.registry import algorithms
from relive.cli.flags import parsed_settings
from relive.training import RunConfig
from relive.training.config_file import read_config
from relive.training.loggers import read_metrics

SHORT = "--num-envs 8 --eval-episodes 3 --batch-size 32 --hidden 8 --learning-starts 200 --no-video"


FLAGS = SHORT.split()


TYPO = f"algorithm must be one of {', '.join(algorithms())}, got 'maddgp'. Did you mean 'maddpg'?"


def typed(field: str, value: Any) -> list[str]:
    """A setting as it is typed."""
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{field.replace('_', '-')}"]
    return ["--" + field.replace("_", "-"), *map(str, value if isinstance(value, tuple) else [value])]


@pytest.mark.parametrize("name", list(algorithms()))
def test_every_flag_reaches_its_setting(name: str) -> None:
    """Flags are typed half of them at a time: by the halves that they are in, no two are the same."""
    run = RunConfig()
    settings = [f.name for f in dataclasses.fields(algorithms()[name])]
    own = [f.name for f in dataclasses.fields(run) if f.name not in ("env_options", "imports")]
    assert not {*settings} & {f.name for f in dataclasses.fields(run)}

    def check(default: Any, fields: list[str]) -> list[str]:
        """Type flags that may be together, and see what becomes of them; returns those that may not."""
        changed, changed_run, arguments, left = default, run, [], []
        for field in fields:
            owner = run if field in own else default
            value = other(getattr(owner, field), field)
            try:
                if field in own:
                    changed_run = dataclasses.replace(changed_run, **{field: value})
                else:
                    changed = dataclasses.replace(changed, **{field: value})
            except rl.errors.OptionError:
                left.append(field)
                continue
            arguments += typed(field, value)
        found = parsed_settings(default, run, arguments)
        assert (found.algorithm, found.run) == (changed, changed_run)
        return left

    every = [*settings, *own]
    for bit in range(len(every).bit_length()):
        for field in check(algorithms()[name], [each for i, each in enumerate(every, 1) if i >> bit & 1]):
            needed: dict[str, dict[str, Any]] = {
                "target_tau": {"value_norm": "none"},
                "n_step": {"neighbours": "none"},
                "rnn": {"recurrent": True},
            }
            beside = needed.get(field, {})
            base = dataclasses.replace(algorithms()[name], **{k: v for k, v in beside.items() if k in settings})
            assert check(base, [field]) == []


@pytest.mark.parametrize("name", list(algorithms()))
def test_every_setting_is_explained(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence stands in the help between every flag and its default."""
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit):
        parsed_settings(algorithms()[name], RunConfig(), ["--help"])
    said = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    for kind in (RunConfig, type(algorithms()[name])):
        for field in dataclasses.fields(kind):
            if field.name not in ("env_options", "imports"):
                _, _, text = said.partition(f" --{field.name.replace('_', '-')}")
                assert text.partition("(default: ")[0].rstrip().endswith("."), field.name


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
        (["maddpg"], "environment must follow the algorithm, got nothing. `relive envs` lists them."),
        (["maddpg", "simpel"], "environment must be a known environment, got 'simpel'. Did you mean 'simple'?"),
        (["maddpg", "simple", "--option", "N"], "option must be given as NAME=VALUE, got 'N'"),
        (
            ["maddpg", "simple", "--option", "N=3"],
            "option of simple must be one of max_cycles, continuous_actions, state, velocity_first, raw_actions, "
            "got 'N'",
        ),
        (["maddpg", "simple", "--seeds", "1", "1"], "seeds must differ, got 1 1"),
        (
            ["dqn", "CartPole-v1", "--learning-rate", "1e-3"],
            "flag must be one of this algorithm's, got --learning-rate. Did you mean --lr?",
        ),
        (
            ["sac", "Pendulum-v1", "--learning_rate=1e-3"],
            "flag must be one of this algorithm's, got --learning_rate. Did you mean --actor-lr or --critic-lr?",
        ),
        (["dqn", "CartPole-v1", "--buffer-size", "9"], "got --buffer-size. Did you mean --capacity?"),
        (["maddpg", "gymnasium:Nope-v1"], "environment must be one that Gymnasium can make, got 'Nope-v1'."),
        (["--resume=a", "--steps", "x"], "--steps must be a whole number, got 'x'"),
        (["--resume"], "--resume must be followed by a value, got nothing"),
        (
            ["--resume", "a", "--seed", "3"],
            "flag must be --steps, --device, --cluster, --threads, --import or --trust beside --resume, got --seed.",
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
    assert "usage: relive train ALGORITHM ENVIRONMENT" in capsys.readouterr().out
    assert cli.main(["train"]) == 2
    with pytest.raises(SystemExit):
        cli.main(["train", "maddpg", "simple", "--stepz", "3"])
    shown = capsys.readouterr()
    assert "--steps" in shown.out + shown.err


def test_numbers_as_people_write_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    assert (
        cli.main(["train", "maddpg", "simple", "--steps", "8e2", *FLAGS, "--capacity", "2_000", "--folder", folder])
        == 0
    )
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if "of 800 steps" in line]
    assert len(lines) >= 20
    assert "0 of 800 steps  before learning  return -" in lines[0]
    assert re.search(r"800 of 800 steps  [\d,]+ steps/s  \d:\d\d elapsed, 0:00 left  return -\d+\.\d\d", lines[-1])
    assert f"next: relive eval {folder} --episodes 1000, or relive watch {folder}" in said
    assert read_metrics(tmp_path / "run")[0]["step"] == 0
    for wrong in ("1.5", "1e400", "many"):
        assert cli.main(["train", "--resume", folder, "--steps", wrong]) == 2
        assert f"--steps must be a whole number, got '{wrong}'" in capsys.readouterr().err


def test_a_run_too_short_to_learn_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "maddpg", "simple", "--steps", "100", *FLAGS, "--folder", str(tmp_path / "run")]) == 0
    assert "nothing was learned: no update was due in so few steps." in capsys.readouterr().err
