"""recollect export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect import cli, train
from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.mappo import MAPPOConfig
from recollect.agents.qmix import QMIXConfig

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


MIXED = QMIXConfig(learning_starts=8, batch_size=8, buffer_size=40, hidden=8, mixing_units=4, hypernet_units=4)


CONTINUOUS = {"env_options": {"continuous_actions": True}}


FEW: dict[str, Any] = {"num_envs": 8, "steps": 800, "eval_every": 400, "eval_episodes": 7, "video": False}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of every kind."""
    folder = tmp_path_factory.mktemp("runs")
    kinds: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "tag": (SMALL, "simple_tag", {}),
        "spread": (SMALL, "simple_spread", CONTINUOUS),
        "marines": (MIXED, "marines_3v3", {}),
        "cart": (MIXED, "gymnasium:CartPole-v1", {}),
        "recurrent": (MAPPOConfig(hidden=(8,), recurrent=True, epochs=1), "marines_3v3", {}),
        "chance": (MAPPOConfig(hidden=(8,), epochs=1, normalize_obs=True), "simple_tag", CONTINUOUS),
    }
    for name, (algorithm, env, more) in kinds.items():
        train.run(algorithm, env, folder=folder / name, **FEW, **more)
    return {name: folder / name for name in kinds}


def test_the_command(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--onnx", str(tmp_path / "a" / "p.onnx"), "--torch-export", str(tmp_path / "p.pt2")]
    assert cli.main(["export", str(runs["tag"]), *where, "--per-agent", str(tmp_path / "agents")]) == 0
    out = capsys.readouterr().out.split()
    assert len(out) == 6
    assert all(Path(path).stat().st_size > 100 for path in out)
    assert cli.main(["export", str(runs["tag"])]) == 2
    assert "--onnx FILE, --torch-export FILE or --per-agent FOLDER" in capsys.readouterr().err
