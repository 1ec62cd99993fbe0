"""Run folders from strangers: what they may do, and what they may not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_runs import checksum_of

import relive as rl
from relive import cli
from relive.agents.maddpg import MADDPGConfig
from relive.training.replay import load_run

SMALL = MADDPGConfig(hidden=(8, 8), batch_size=16, learning_starts=50, capacity=1000)


FEW: dict[str, Any] = {"steps": 200, "num_envs": 4, "eval_every": 100, "eval_episodes": 2, "video": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rl.train(SMALL, "simple_spread", folder=tmp_path / "run", **FEW)
    return tmp_path / "run"


def poison(folder: Path, env: str, options: dict[str, Any]) -> None:
    """Another environment in the settings, and in the checkpoint with a right checksum."""
    path = folder / "config.toml"
    text = path.read_text().replace('env = "simple_spread"', f"env = {json.dumps(env)}")
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    path.write_text(text.replace("\n[maddpg]", "\n".join(["", "[run.env_options]", *lines, "", "[maddpg]"])))
    facts = json.loads((folder / "checkpoint.json").read_text())
    del facts["checksum"]
    facts["settings"] |= {"env": env, "env_options": options}
    facts["checksum"] = checksum_of(facts)
    (folder / "checkpoint.json").write_text(json.dumps(facts))


HOSTILE = {
    "pymarl": lambda mark: ("pymarl:subprocess:Popen", {"args": ["touch", mark]}),
    "function": lambda mark: ("pymarl:os:system", {"command": f"touch {mark}"}),
    "pettingzoo": lambda _: ("pettingzoo:hostile", {}),
    "gymnasium": lambda _: ("gymnasium:hostile:Env-v0", {}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_command_runs_what_a_folder_names(
    folder: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "hostile.py").write_text(f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n")
    monkeypatch.delitem(sys.modules, "hostile", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    env, options = HOSTILE[kind](str(mark))
    poison(folder, env, options)
    for command in (
        ["eval", str(folder)],
        ["watch", str(folder), "--out", "film.gif"],
        ["train", "--resume", str(folder)],
        ["train", "--resume", str(folder), "--steps", "400"],
        ["train", "--config", str(folder / "config.toml"), "--folder", "another"],
        ["train", "--config", str(folder / "config.toml"), "--folder", "more", "--seeds", "1", "2"],
    ):
        assert cli.main(command) == 2
        said = capsys.readouterr().err
        assert "must be trusted, since the file names code to run" in said, command
        assert "pass --trust (in Python: trust=True)" in said
    for command in (["plot", str(folder)], ["inspect", str(folder)]):
        assert cli.main(command) == 0
    for call in (rl.resume, load_run):
        with pytest.raises(rl.errors.OptionError, match="must be trusted"):
            call(folder)
    assert not mark.exists()
    # With consent a module is imported; but what is no environment is still not called.
    with pytest.raises(rl.errors.ReliveError):
        load_run(folder, trust=True)
    assert mark.exists() == (kind in ("pettingzoo", "gymnasium"))


def test_the_message_in_full(folder: Path) -> None:
    poison(folder, "pymarl:subprocess:Popen", {})
    with pytest.raises(rl.errors.OptionError) as caught:
        load_run(folder)
    assert str(caught.value) == (
        f"env in {folder / 'config.toml'} must be trusted, since the file names code to run, got "
        "'pymarl:subprocess:Popen'. That imports 'subprocess'. If you know where this run is from, pass --trust "
        "(in Python: trust=True)."
    )
    for name, message in {
        "pymarl:subprocess:Popen": "got 'subprocess:Popen', one without reset, step, get_obs, get_state, "
        "get_avail_actions, get_env_info",
        "pymarl:os:system": "got 'os:system', no class",
    }.items():
        with pytest.raises(rl.errors.OptionError) as caught:
            rl.envs.make(name)
        assert str(caught.value) == f"environment must name a class with PyMARL's methods, {message}"


def test_links_in_a_folder_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    """What a run writes replaces a link, and does not follow it."""
    target = tmp_path / "precious"
    target.write_text("precious")
    kept = tmp_path / "kept"
    kept.mkdir()
    names = ["watch.gif", "curve.png", "metrics.jsonl.new", "checkpoint.json.new", "config.toml.new", "metrics.jsonl"]
    for name in names:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
    other = 1 - json.loads((folder / "checkpoint.json").read_text())["place"]
    for name in ("tensorboard", f"memory-{other}"):
        if (folder / name).exists():
            subprocess.run(["rm", "-r", str(folder / name)], check=True)
        (folder / name).symlink_to(kept)
    assert cli.main(["watch", str(folder)]) == 0
    assert cli.main(["train", "--resume", str(folder), "--steps", "400"]) == 0
    assert target.read_text() == "precious"
    assert list(kept.iterdir()) == []
    assert not any(path.name.endswith(".new") and not path.is_symlink() for path in folder.iterdir())
