"""What someone meets who tries the command for the first time."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect as rc
from recollect import cli, envs, train
from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.qmix import QMIXConfig
from recollect.cli.train import _Clock, _time
from recollect.envs.video import captioned
from recollect.train import RunConfig
from recollect.train.curves import draw_runs
from recollect.train.evaluate import record_video
from recollect.train.loggers import read_metrics
from recollect.train.settings import resolved

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))
FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "video": False}
SHORT = "--num-envs 8 --eval-episodes 3 --batch-size 32 --hidden 8 --learning-starts 200 --no-video"
FLAGS = SHORT.split()


@pytest.mark.parametrize(("steps", "every"), [(1_000_000, 50_000), (300, 15), (7, 1)])
def test_about_twenty_evaluations_by_default(steps: int, every: int) -> None:
    assert resolved(SMALL, RunConfig(steps=steps)).eval_every == every
    assert resolved(SMALL, RunConfig(steps=steps, eval_every=3)).eval_every == 3


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
    assert re.search(r"800 of 800 steps  [\d,]+ steps/s  \d:\d\d so far, 0:00 to go  return -\d+\.\d\d", lines[-1])
    assert f"next: recollect eval {folder} --episodes 1000, or recollect watch {folder}" in said
    assert read_metrics(tmp_path / "run")[0]["step"] == 0
    for wrong in ("1.5", "1e400", "many"):
        assert cli.main(["train", "--resume", folder, "--steps", wrong]) == 2
        assert f"--steps must be a whole number, got '{wrong}'" in capsys.readouterr().err


def test_a_run_too_short_to_learn_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "maddpg", "simple", "--steps", "100", *FLAGS, "--folder", str(tmp_path / "run")]) == 0
    assert "nothing was learned: no update was due in so few steps." in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"recollect {rc.__version__}\n"


def test_sigterm_saves_and_exits_143(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recollect", "train", "maddpg", "simple", "--steps", "1e7", "--eval-every", "500"]
    process = subprocess.Popen(
        [*command, *FLAGS, "--folder", "run"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while "steps/s" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "go on with: recollect train --resume run" in said
    assert train.checkpoint.load_checkpoint(tmp_path / "run")["steps"] > 0


def test_time_to_go_leaves_warm_up_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps a second at first, a hundred later."""
    now = [0.0]
    monkeypatch.setattr("recollect.cli.train.time.monotonic", lambda: now[0])
    clock = _Clock()
    for steps in range(0, 10_001, 100):
        speed, elapsed, left = clock.tick(steps, 10_000)
        now[0] += 0.1 if steps < 2000 else 1.0
    assert (speed, left) == (pytest.approx(100, rel=0.01), 0)
    now[0] = 0.0
    clock = _Clock()
    for steps in range(0, 5001, 100):
        speed, elapsed, left = clock.tick(steps, 10_000)
        now[0] += 0.1 if steps < 2000 else 1.0
    assert left == pytest.approx(50, rel=0.01)
    assert elapsed == pytest.approx(2 + 30, abs=0.2)
    assert (_time(59.6), _time(3600), _time(None)) == ("1:00", "1:00:00", "?")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all")
    for seed in (1, 2, 3):
        train.run(SMALL, "simple", folder=folder / f"seed_{seed}", steps=800, seed=seed, **FEW)
    return folder


def test_all_seeds_are_evaluated_at_once(seeds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(seeds), "--episodes", "5"]) == 0
    said = capsys.readouterr().out
    each = [float(value) for value in re.findall(r"^  return (-[\d.]+)$", said, re.M)]
    assert len(each) == 3
    middle, low, high = map(float, re.findall(r"return (-[\d.]+) \((-[\d.]+) to (-[\d.]+)\)", said)[0])
    assert min(each) <= low <= middle <= high <= max(each)


def test_lines_by_labels_of_ones_own(seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from recollect.train import curves

    other = tmp_path / "other"
    train.run(MADDPGConfig(gamma=0.5, hidden=(8,)), "simple", folder=other, steps=400, **FEW)
    drawn: list[Any] = []
    monkeypatch.setattr(curves, "save_picture", lambda figure, path: drawn.append(figure) or Path(path))
    draw_runs([seeds, other], tmp_path / "curves.png", ["patient", "hasty"])
    draw_runs([seeds, other], tmp_path / "curves.png")
    texts = [[text.get_text() for text in figure.legends[0].get_texts()] for figure in drawn]
    assert texts[0] == ["patient (3 seeds)", "hasty"]
    assert "gamma 0.95" in texts[1][0]
    assert "eval_every" not in texts[1][0]
    with pytest.raises(rc.errors.OptionError, match=r"^labels must be one for each of the 2 lines \(maddpg simple"):
        draw_runs([seeds, other], tmp_path / "curves.png", ["one"])


def test_pictures_say_how_far_they_are() -> None:
    learner = SMALL.learner(envs.make("simple_tag"))
    pictures = record_video(learner, envs.make_drawable("simple_tag"), seed=0)
    plain = envs.make("simple_tag")
    plain.reset(seed=0)
    height = plain.render(0).shape[0]
    assert all(picture.shape[0] > height for picture in pictures)
    strips = [picture[height:] for picture in pictures]
    assert all((one != two).any() for one, two in itertools.pairwise(strips))
    assert captioned(np.zeros((20, 300, 3), np.uint8), "step 1").shape == (40, 300, 3)


def test_agents_can_be_told_apart() -> None:
    """Two of a kind that change places make another picture."""
    env = envs.make("simple_spread")
    env.reset(seed=0)
    env.pos[:] = 0  # type: ignore[attr-defined]
    env.vel[:] = 0  # type: ignore[attr-defined]
    env.pos[0, 0], env.pos[1, 0], env.pos[2, 1] = 0.5, -0.5, 0.8  # type: ignore[attr-defined]
    one = env.render(0)
    env.pos[0, 0], env.pos[1, 0] = -0.5, 0.5  # type: ignore[attr-defined]
    assert (env.render(0) != one).any()


def test_whoever_runs_off_stays_in_the_picture() -> None:
    env = envs.make("simple_tag")
    env.reset(seed=0)
    env.pos[0] = 5.0  # type: ignore[attr-defined]
    picture = env.render(0).astype(int)
    red = (picture[..., 0] - picture[..., 1] > 80).sum()
    assert red > 20


def test_an_environment_that_cannot_be_drawn(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import telltale_world  # type: ignore[import-not-found]  # noqa: F401

    folder = tmp_path / "run"
    with pytest.warns(UserWarning, match="telltale could not be recorded: environment must be one that can be drawn"):
        train.run(SMALL, "telltale", folder=folder, steps=100, **{**FEW, "video": True})
    assert cli.main(["watch", str(folder)]) == 2
    assert "environment must be one that can be drawn, got 'Telltale'" in capsys.readouterr().err


def test_opponents_are_no_team(tmp_path: Path) -> None:
    few = {**FEW, "steps": 80}
    with pytest.warns(
        UserWarning, match=r"^qmix learns the sum of the rewards of adversary, agent, as one team\. For opponents"
    ):
        train.run(QMIXConfig(hidden=8), "simple_tag", folder=tmp_path / "run", **few)
    train.run(QMIXConfig(hidden=8, mixer="none"), "simple_tag", folder=tmp_path / "alone", **few)  # warns of nothing
    train.run(QMIXConfig(hidden=8), "simple_speaker_listener", folder=tmp_path / "team", **few)  # nor of a team
