"""Run folders from strangers: what they may do, and what they may not."""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from small_runs import checksum_of

import relive as rl
from refusals import refused
from relive import cli
from relive.agents.maddpg import MADDPGConfig
from relive.training.replay import load_run

SMALL = MADDPGConfig(hidden=(8, 8), batch_size=16, learning_starts=50, capacity=1000)


FEW: dict[str, Any] = {"steps": 200, "num_envs": 4, "eval_every": 100, "eval_episodes": 2, "video": False}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    rl.train(SMALL, "simple_spread", folder=folder, **FEW)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


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
        with refused(rl.errors.OptionError, "env in */config.toml"):
            call(folder)
    assert not mark.exists()
    # With consent a module is imported; but what is no environment is still not called.
    with pytest.raises(rl.errors.ReliveError):
        load_run(folder, trust=True)
    assert mark.exists() == (kind in ("pettingzoo", "gymnasium"))


def test_the_message_in_full(folder: Path) -> None:
    poison(folder, "pymarl:subprocess:Popen", {})
    with refused(rl.errors.OptionError, "env in */config.toml", got="'pymarl:subprocess:Popen'"):
        load_run(folder)
    for name in ("pymarl:subprocess:Popen", "pymarl:os:system"):
        with refused(rl.errors.OptionError, "environment"):
            rl.envs.make(name)


LINKED = [
    "checkpoint.json",
    "config.toml",
    "curve.png",
    "history",
    "live.json",
    "memory-0",
    "memory-1",
    "metrics.csv",
    "metrics.jsonl",
    "state-0.safetensors",
    "state-1.safetensors",
    "status.json",
    "tensorboard",
]


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_in_a_folder_are_refused(
    folder: Path, tmp_path: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that goes on neither reads, writes nor removes what a link leads to, and no pipe holds it up."""
    kept = tmp_path / "kept"
    kept.mkdir()
    for file in ("000000000100.safetensors", "precious.safetensors", "manifest.json"):
        (kept / file).write_text("precious")
    target = kept if "." not in name and not name.startswith("state") else kept / "manifest.json"
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(target)
    else:
        os.mkfifo(path)
    faulthandler.dump_traceback_later(60, exit=True, file=sys.__stderr__)  # a pipe that is waited for
    try:
        code = cli.main(["train", "--resume", str(folder), "--steps", "400", "--threads", "1"])
    finally:
        faulthandler.cancel_dump_traceback_later()
    said = capsys.readouterr().err
    assert code in (0, 2)
    if code:  # else it was not needed, and is as it was
        assert name in said or name in ("config.toml", "checkpoint.json")
    assert sorted(path.name for path in kept.iterdir()) == [
        "000000000100.safetensors", "manifest.json", "precious.safetensors",
    ]  # fmt: skip
    assert {path.read_text() for path in kept.iterdir()} == {"precious"}


def test_old_checkpoints_of_a_folder_are_removed_there_and_nowhere_else(folder: Path, tmp_path: Path) -> None:
    """``history`` was once followed as a link, and what it led to was removed."""
    (tmp_path / "precious").mkdir()
    for steps in range(5):
        (tmp_path / "precious" / f"{steps:012}.safetensors").write_text("precious")
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("keep_checkpoints = 0", "keep_checkpoints = 1"))
    (folder / "history").symlink_to(tmp_path / "precious")
    with pytest.raises(rl.errors.RunError):
        rl.resume(folder, steps=400)
    assert len(list((tmp_path / "precious").iterdir())) == 5


@pytest.mark.parametrize("address", ["ray://198.51.100.7:10001", "198.51.100.7:6379"])
def test_a_cluster_elsewhere_is_joined_only_if_typed(
    folder: Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray's client unpickles what the server sends, so that joining one runs its code."""
    asked: list[str] = []

    def connect(where: str, **_: Any) -> bool:
        asked.append(where)
        raise rl.errors.StorageError("Ray", "be reached", where)

    monkeypatch.setattr("relive.training.loop.connect", connect)
    path = folder / "config.toml"
    path.write_text(path.read_text().replace('cluster = ""', f"cluster = {json.dumps(address)}"))
    for command in (["--resume", str(folder)], ["--config", str(path), "--folder", str(folder / "new")]):
        assert cli.main(["train", *command]) == 2
        assert address in capsys.readouterr().err
    with pytest.raises(rl.errors.OptionError) as caught:
        rl.resume(folder)
    assert caught.value.problem.got == repr(address)
    assert not asked
    for command in (["--cluster", address], ["--trust"]):
        assert cli.main(["train", "--resume", str(folder), *command]) == 2
    assert cli.main(["train", "--config", str(path), "--cluster", address, "--folder", str(folder / "new")]) == 2
    assert asked == [address] * 3
    path.write_text(path.read_text().replace(json.dumps(address), '"local"'))
    with pytest.raises(rl.errors.StorageError):
        rl.resume(folder)
    assert asked[-1] == "local"
    assert load_run(folder).steps == 200  # nothing is joined to evaluate
