"""What is done with runs afterwards: evaluate, watch, plot, inspect."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import recollect as rc
from recollect import cli, train
from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.qmix import QMIXConfig
from recollect.train import curves
from recollect.train.config_file import Description
from recollect.train.curves import _labels, bootstrap_ci, draw_runs, interquartile_mean
from recollect.train.loggers import read_metrics
from recollect.train.replay import load_run
from recollect.train.settings import RunConfig, as_data

SMALL = MADDPGConfig(learning_starts=300, batch_size=32, update_every=50, capacity=2000, hidden=(8,), per_alpha=0.5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    found = []
    for seed in (1, 2, 3):
        path = folder / f"seed_{seed}"
        few = {"num_envs": 8, "eval_every": 400, "eval_episodes": 7, "video": False}
        train.run(SMALL, "simple_spread", folder=path, steps=1200, seed=seed, **few)
        found.append(path)
    return found


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
    from recollect.cli import look

    shown: list[int] = []
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setattr(look, "_show", lambda pictures, fps: shown.append(len(pictures)))
    assert cli.main(["watch", str(runs[0])]) == 0
    assert shown == [26]  # from before the first step to after the last


def test_plotting(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "curves.png"
    assert cli.main(["plot", *map(str, runs), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    with Image.open(out) as picture:
        assert picture.size[0] > 800
    assert cli.main(["plot", str(runs[0].parent), "--out", str(tmp_path / "new" / "curves")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "new" / "curves.png")
    assert (tmp_path / "new" / "curves.png").read_bytes() == out.read_bytes(), "a folder of seeds is all of them"
    with pytest.raises(rc.errors.RunError, match=r"^run must be a run's folder, got .*$"):
        draw_runs([tmp_path], out)
    with pytest.raises(rc.errors.OptionError, match=r"^out must end in one of .*\.png.*, got '.*\.xyz'$"):
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


def test_lines_say_how_they_differ() -> None:
    def described(env: str, algorithm: QMIXConfig, **settings: Any) -> Description:
        return Description(env, algorithm.name, as_data(algorithm), as_data(RunConfig(**settings)))

    one = described("marines_4v4", QMIXConfig(), seed=1)
    far = described("marines_4v4", QMIXConfig(gamma=0.99, clip_targets=False), seed=2, steps=9)
    others = described("marines_3v3", QMIXConfig(gamma=0.5)), described("marines_4v4", QMIXConfig(mixer="vdn"))
    assert _labels([one, far, *others]) == [
        "qmix marines_4v4: gamma 0.95, clip_targets True",
        "qmix marines_4v4: gamma 0.99, clip_targets False",
        "qmix marines_3v3",
        "vdn marines_4v4",
    ]


def test_seeds_become_one_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--steps",
        "400",
        "--learning-starts",
        "100",
        "--batch-size",
        "16",
        "--hidden",
        "8",
        "--num-envs",
        "4",
        "--eval-every",
        "200",
    ]
    flags += ["--eval-episodes", "3", "--no-video", "--folder", str(tmp_path / "all"), "--seeds", "4", "7"]
    assert cli.main(["train", "maddpg", "simple", *flags]) == 0
    assert (tmp_path / "all" / "curve.png").exists()
    for seed in (4, 7):
        assert load_run(tmp_path / "all" / f"seed_{seed}").config.seed == seed
    assert "seed 7" in capsys.readouterr().out
    # Stopped in the middle of the second, and called again: the first is done, the second goes on.
    (tmp_path / "all" / "seed_7" / "config.toml").write_text(
        (tmp_path / "all" / "seed_7" / "config.toml").read_text().replace("steps = 400", "steps = 600")
    )
    before = (tmp_path / "all" / "seed_4" / "checkpoint.json").read_bytes()
    (tmp_path / "all" / "seed_4" / "config.toml").write_text(
        (tmp_path / "all" / "seed_4" / "config.toml").read_text().replace("steps = 400", "steps = 300")
    )
    for name, steps in (("4", "300"), ("7", "600")):
        flags[1] = steps
        flags[flags.index("--seeds") :] = ["--seeds", name]
        assert cli.main(["train", "maddpg", "simple", *flags]) == 0
    assert (tmp_path / "all" / "seed_4" / "checkpoint.json").read_bytes() == before
    assert "seed_4 is done" in capsys.readouterr().out
    assert load_run(tmp_path / "all" / "seed_7").steps == 600
    with pytest.raises(rc.errors.OptionError, match="folder must hold runs of these settings"):
        cli.train.train(["maddpg", "simple", *flags, "--gamma", "0.5"])


def test_interquartile_mean() -> None:
    assert interquartile_mean(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 80.0])) == pytest.approx(4.5)
    # Of five the middle half is 2.5: the third whole, the second and fourth three quarters.
    assert interquartile_mean(np.array([9.0, 1.0, 2.0, 4.0, 100.0])) == pytest.approx((0.75 * 2 + 4 + 0.75 * 9) / 2.5)
    assert interquartile_mean(np.array([3.0])) == 3
    values = np.random.default_rng(0).normal(5, 1, (20, 4))
    middle, low, high = bootstrap_ci(values)
    assert ((low < middle) & (middle < high)).all()
    assert (high - low < 1.5).all()


def test_inspecting(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "memory.png"
    assert cli.main(["inspect", str(runs[0]), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    memory = train.checkpoint.load_memory(runs[0])
    assert f"{len(memory):,} steps, {memory.used_nbytes / 2**20:.1f} MiB; room for 2,000 rows in 8 lanes" in text
    assert "obs     float32[3, 18]         216 bytes a row  observed" in text
    episodes = memory.episodes
    ended = episodes.truncated & episodes.whole
    assert f"episode lengths: {ended.sum()}, 25 to 25, mean 25, median 25" in text
    lane, start = int(episodes.lane[ended][0]), int(episodes.start[ended][0])
    wanted = float(np.mean(memory["reward"][lane, (start + np.arange(25)) % 250].sum(axis=0)))
    from recollect.cli.inspect import _statistics

    assert _statistics(memory)["returns of episodes (reward)"][0] == pytest.approx(wanted, rel=1e-5)
    assert "priorities:" in text
    assert "ages of episodes in rows:" in text
    with Image.open(out) as picture:
        assert picture.size[0] > 1000
    memory.save(tmp_path / "snapshot")
    assert cli.main(["inspect", str(tmp_path / "snapshot")]) == 0
    assert "Prioritized" in capsys.readouterr().out
