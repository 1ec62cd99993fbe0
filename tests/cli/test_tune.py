"""relive tune."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from relive import cli
from relive.training.config_file import read_config


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    flags = "--trials 3 --steps 4e2 --num-envs 8 --eval-every 200 --eval-episodes 3 --learning-starts 200 --log"
    more = ["csv", "--gamma", "0.9", "--folder", str(tmp_path / "study"), "--metric", "agent/return"]
    assert cli.main(["tune", "maddpg", "simple_tag", *flags.split(), *more]) == 0
    out = capsys.readouterr().out
    assert out.count("complete") == 3
    assert "train with the best: relive train --config" in out
    assert "gamma" not in out  # it was given
    _, best, _ = read_config(tmp_path / "study" / "best.toml")
    assert best.gamma == 0.9
    with Image.open(tmp_path / "study" / "study.png") as picture:
        assert picture.size[0] > 800
    assert (
        cli.main(["train", "--config", str(tmp_path / "study" / "best.toml"), "--folder", str(tmp_path / "run")]) == 0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["maddpg"], "environment must follow the algorithm, got nothing"),
        (["maddpg", "simple", "--trials", "0"], "trials must be at least 1, got 0"),
        (["maddpg", "simple", "--metric", "wealth", "--steps", "9"], "metric must be one of return, got 'wealth'"),
    ],
)
def test_the_command_refuses(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["tune", *arguments]) == 2
    assert message in capsys.readouterr().err
