"""relive eval and watch: runs are looked at again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt
from PIL import Image
from small_runs import three_seeds

import relive
from relive import cli
from relive.agents.maddpg import MADDPGConfig
from relive.training.loggers import read_metrics
from relive.training.replay import load_run

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "video": False}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return three_seeds(tmp_path_factory.mktemp("runs"))


def test_evaluation_is_the_runs_own(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    trained = load_run(runs[0])
    assert trained.steps == 1200
    assert trained.evaluate(7)["return"] == pytest.approx(read_metrics(runs[0])[-1]["return"])
    assert trained.evaluate(7, seed=5) != trained.evaluate(7)
    drawn = trained.evaluate(7, explore=True)
    assert drawn == trained.evaluate(7, explore=True)
    assert drawn["return"] != trained.evaluate(7)["return"]
    assert cli.main(["eval", str(runs[0]), "--episodes", "7"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("simple_spread after 1,200 steps, 7 episodes\n  return -")


def test_watching(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(["watch", str(runs[0])]) == 0
    with Image.open(runs[0] / "watch.gif") as film:
        assert film.n_frames > 10  # type: ignore[attr-defined]
    assert cli.main(["watch", str(runs[0]), "--out", str(tmp_path / "film.mp4")]) == 0
    assert (tmp_path / "film.mp4").stat().st_size > 1000


def test_a_window_where_there_is_a_display(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setattr("matplotlib.animation.FuncAnimation", lambda *given, **how: shown.append((given[2], how)))
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: shown.append("shown"))
    assert cli.main(["watch", str(runs[0]), "--fps", "20"]) == 0
    assert shown == [(26, {"interval": 50.0}), "shown"]  # from before the first step to after the last
    plt.close("all")


def test_what_cannot_be_looked_at(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = ", ".join(map(str, runs))
    for words, message in (
        (["eval", "nowhere"], "run must be a run's folder, got nowhere"),
        (
            ["watch", str(runs[0].parent)],
            f"run must be a run's folder, got {runs[0].parent}. It holds several: {seeds}.",
        ),
        (["eval", str(runs[0]), "--episodes", "0"], "episodes must be at least 1, got 0"),
    ):
        assert cli.main(words) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.strip()) == ("", message)
    torn = tmp_path / "torn"
    shutil.copytree(runs[0], torn)
    place = json.loads((torn / "checkpoint.json").read_text())["place"]
    shutil.rmtree(torn / f"memory-{place}")
    (torn / f"state-{place}.safetensors").unlink()
    remedy = "Restore it from a copy, or begin a new run."
    for words, name in ((["inspect"], f"memory-{place}"), (["eval"], f"state-{place}.safetensors")):
        assert cli.main([*words, str(torn)]) == 2
        assert capsys.readouterr().err.strip() == f"{torn / name} must be there, got nothing. {remedy}"
    (torn / "checkpoint.json").write_text("{}")
    assert cli.main(["eval", str(torn)]) == 2
    wanted = f"{torn / 'checkpoint.json'} must be a whole checkpoint, got one without 'version'. {remedy}"
    assert capsys.readouterr().err.strip() == wanted


def test_all_seeds_are_evaluated_at_once(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(runs[0].parent), "--episodes", "5"]) == 0
    said = capsys.readouterr().out
    each = [float(value) for value in re.findall(r"^  return (-[\d.]+)$", said, re.M)]
    assert len(each) == 3
    middle, low, high = map(float, re.findall(r"return (-[\d.]+) \((-[\d.]+) to (-[\d.]+)\)", said)[0])
    assert min(each) <= low <= middle <= high <= max(each)


def test_an_environment_that_cannot_be_drawn(tmp_path: Path, capsys: Any) -> None:
    import telltale_world  # type: ignore[import-not-found]  # noqa: F401

    folder = tmp_path / "run"
    with pytest.warns(UserWarning, match="telltale could not be recorded: environment must be one that can be drawn"):
        relive.train(SMALL, "telltale", folder=folder, steps=100, **{**FEW, "video": True})
    assert cli.main(["watch", str(folder)]) == 2
    assert "environment must be one that can be drawn, got 'Telltale'" in capsys.readouterr().err
