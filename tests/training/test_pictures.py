"""The curve of a run, and how pictures are saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image

from refusals import refused
from relive.errors import OptionError
from relive.training import pictures
from relive.training.pictures import draw_curve, save_picture

LINES = [
    {"step": 0, "red/return": -1.0, "blue/return": 2.0, "won": 0.25, "train/updates": 0},
    {"step": 500, "red/return": 3.0, "blue/return": 1.0, "won": 0.75, "train/updates": 9},
]


def test_a_curve_shows_returns_and_what_else_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    drawn: list[Any] = []
    monkeypatch.setattr(pictures, "save_picture", lambda figure, path: drawn.append(figure) or path)
    assert draw_curve(tmp_path, "a title") == tmp_path / "curve.png"
    top, below = drawn[0].axes
    shown = {line.get_label(): line.get_xydata().tolist() for line in top.lines}
    assert shown == {"red": [[0, -1], [500, 3]], "blue": [[0, 2], [500, 1]]}
    assert [line.get_xydata().tolist() for line in below.lines] == [[[0, 0.25], [500, 0.75]]]
    assert below.get_ylim() == (-0.03, 1.03), "rates are shown in all of their range"


def test_without_evaluations_there_is_no_curve(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("")
    assert draw_curve(tmp_path, "a title") is None
    assert not (tmp_path / "curve.png").exists()


def test_pictures_are_png_unless_their_name_says_so(tmp_path: Path) -> None:
    for name, kind in (("new/curve", "PNG"), ("curve.jpg", "JPEG")):
        figure = Figure()
        path = save_picture(figure, tmp_path / name)
        with Image.open(path) as picture:
            assert picture.format == kind
    assert (tmp_path / "new" / "curve.png").exists()


def test_endings_that_nobody_knows(tmp_path: Path) -> None:
    figure = Figure()
    with refused(OptionError, "out"):
        save_picture(figure, tmp_path / "curve.xyz")
    assert list(tmp_path.iterdir()) == []


def test_curves_have_a_title_labels_and_a_caption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    drawn: list[Any] = []
    monkeypatch.setattr(pictures, "save_picture", lambda figure, path: drawn.append(figure) or path)
    draw_curve(tmp_path, "qmix on marines_4v4")
    top, below = drawn[0].axes
    assert top.get_title(loc="left") == "qmix on marines_4v4"
    assert top.get_ylabel() == "episode return (mean)"
    assert below.get_ylabel() == "won (mean)"
    assert {axes.get_xlabel() for axes in drawn[0].axes} == {"environment steps"}
    assert drawn[0].get_supxlabel().startswith("Evaluations without exploration")
