"""Curves of several runs and seeds."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_runs import PRIORITIZED, three_seeds

import relive as rl
from refusals import refused
from relive import cli
from relive.agents.qmix import QMIXConfig
from relive.training import curves
from relive.training.config_file import write_config
from relive.training.curves import bootstrap_ci, draw_runs, interquartile_mean
from relive.training.settings import RunConfig

FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "video": False}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return three_seeds(tmp_path_factory.mktemp("runs"))


def test_plotting(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "curves.png"
    assert cli.main(["plot", *map(str, runs), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    with Image.open(out) as picture:
        assert picture.size[0] > 800
    assert cli.main(["plot", str(runs[0].parent), "--out", str(tmp_path / "new" / "curves")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "new" / "curves.png")
    assert (tmp_path / "new" / "curves.png").read_bytes() == out.read_bytes(), "a folder of seeds is all of them"
    with refused(rl.errors.RunError, "run"):
        draw_runs([tmp_path], out)
    with refused(rl.errors.OptionError, "out"):
        draw_runs(runs, tmp_path / "curves.xyz")


def test_several_runs_of_one_seed_are_not_seeds(runs: list[Path], tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(runs[0], again)
    with pytest.MonkeyPatch.context() as patched:
        drawn: list[Any] = []
        patched.setattr(curves, "save_picture", lambda figure, path: drawn.append(figure) or Path(path))
        draw_runs([runs[0], again], tmp_path / "curves.png")
        draw_runs(runs, tmp_path / "curves.png")
    labels = [figure.legends[0].get_texts()[0].get_text() for figure in drawn]
    assert labels == ["maddpg simple_spread (2 runs)", "maddpg simple_spread (3 seeds)"]
    assert drawn[0].axes[0].lines[0].get_marker() == ".", "few evaluations are to be seen, even a single one"


def test_lines_say_how_they_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        ("marines_4v4", QMIXConfig(), {"seed": 1}),
        ("marines_4v4", QMIXConfig(gamma=0.99, clip_targets=False), {"seed": 2, "steps": 9}),
        ("marines_3v3", QMIXConfig(gamma=0.5), {}),
        ("marines_4v4", QMIXConfig(mixer="vdn"), {}),
    ]
    folders = []
    for number, (env, algorithm, settings) in enumerate(made):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        write_config(folders[-1] / "config.toml", env, algorithm, RunConfig(**settings))
        (folders[-1] / "metrics.jsonl").write_text('{"step": 8, "return": 1.0}\n')
    drawn: list[Any] = []
    monkeypatch.setattr(curves, "save_picture", lambda figure, path: drawn.append(figure) or Path(path))
    draw_runs(folders, tmp_path / "curves.png")
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == [
        "qmix marines_4v4: gamma 0.95, clip_targets True",
        "qmix marines_4v4: gamma 0.99, clip_targets False",
        "qmix marines_3v3",
        "vdn marines_4v4",
    ]


def test_interquartile_mean() -> None:
    assert interquartile_mean(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 80.0])) == pytest.approx(4.5)
    # Of five the middle half is 2.5: the third whole, the second and fourth three quarters.
    assert interquartile_mean(np.array([9.0, 1.0, 2.0, 4.0, 100.0])) == pytest.approx((0.75 * 2 + 4 + 0.75 * 9) / 2.5)
    assert interquartile_mean(np.array([3.0])) == 3
    values = np.random.default_rng(0).normal(5, 1, (20, 4))
    middle, low, high = bootstrap_ci(values)
    assert ((low < middle) & (middle < high)).all()
    assert (high - low < 1.5).all()


def test_lines_by_labels_of_ones_own(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    rl.train(dataclasses.replace(PRIORITIZED, gamma=0.5), "simple_spread", folder=other, steps=400, **FEW)
    drawn: list[Any] = []
    monkeypatch.setattr(curves, "save_picture", lambda figure, path: drawn.append(figure) or Path(path))
    draw_runs([runs[0].parent, other], tmp_path / "curves.png", ["patient", "hasty"])
    draw_runs([runs[0].parent, other], tmp_path / "curves.png")
    texts = [[text.get_text() for text in figure.legends[0].get_texts()] for figure in drawn]
    assert texts[0] == ["patient (3 seeds)", "hasty"]
    assert "gamma 0.95" in texts[1][0]
    assert "eval_every" not in texts[1][0]
    with refused(rl.errors.OptionError, "labels"):
        draw_runs([runs[0].parent, other], tmp_path / "curves.png", ["one"])
