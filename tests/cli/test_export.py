"""relive export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import relive
from relive import cli
from relive.agents.maddpg import MADDPGConfig

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few: dict[str, Any] = {"num_envs": 8, "steps": 400, "eval_episodes": 2, "video": False}
    run = relive.train(SMALL, "simple_tag", folder=tmp_path / "run", **few).folder
    where = ["--onnx", str(tmp_path / "a" / "p.onnx"), "--torch-export", str(tmp_path / "p.pt2")]
    assert cli.main(["export", str(run), *where, "--per-agent", str(tmp_path / "agents")]) == 0
    out = capsys.readouterr().out.split()
    assert len(out) == 6
    assert all(Path(path).stat().st_size > 100 for path in out)
    assert cli.main(["export", str(run)]) == 2
    assert "--onnx FILE, --torch-export FILE or --per-agent FOLDER" in capsys.readouterr().err
