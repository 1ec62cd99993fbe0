"""An algorithm and an environment of one's own: trained, killed, resumed, evaluated, watched and plotted like ours."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive import cli
from relive.agents import registry
from relive.agents.maddpg import MADDPGConfig
from relive.cli.importing import import_typed
from relive.training import checkpoint
from relive.training.config_file import read_config

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_algorithm.py"
FEW = ["--num-envs", "4", "--eval-every", "1000", "--eval-episodes", "4", "--save-every", "500", "--no-video"]

WORLD = """
import gymnasium, numpy as np
from relive import envs

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, length: int = 5, render_mode: str | None = None) -> None:
        self.length, self.render_mode = length, render_mode

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = int(self.np_random.integers(self.length)), 0
        return np.array([self.at / self.length], np.float32), {}

    def step(self, action):
        self.at, self.time = max(0, self.at + (1 if action == 1 else -1)), self.time + 1
        there = self.at >= self.length
        return np.array([self.at / self.length], np.float32), float(there) - 0.1, there, self.time >= 20, {}

    def render(self):
        picture = np.zeros((16, 16 * (self.length + 1), 3), np.uint8)
        picture[:, 16 * self.at : 16 * (self.at + 1)] = 255
        return picture

envs.register("corridor", Corridor, "Walk to the end.")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with a module of each, in which nothing is imported yet."""
    shutil.copy(EXAMPLE, tmp_path / "own_algorithm.py")
    (tmp_path / "own_world.py").write_text(WORLD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    from relive.envs.registry import _ENTRIES

    kept = [(known, dict(known)) for known in (registry._ALGORITHMS, _ENTRIES)]
    yield tmp_path
    for known, before in kept:
        known.clear()  # type: ignore[attr-defined]
        known.update(before)  # type: ignore[attr-defined]
    for name in ("own_algorithm", "own_world"):
        sys.modules.pop(name, None)


def forget() -> None:
    """As a new process would be: nothing of one's own is known."""
    from relive.envs.registry import _ENTRIES

    for name in ("own_algorithm", "own_world"):
        sys.modules.pop(name, None)
    registry._ALGORITHMS.pop("reinforce", None)
    _ENTRIES.pop("corridor", None)


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from relive import cli
from relive.training import checkpoint

def kill():
    while not checkpoint.exists(Path("killed")):
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
cli.main(sys.argv[1:])
"""
"""A run that dies as soon as it has a checkpoint."""


def test_the_whole_life_of_an_algorithm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed at some moment and resumed, it ends where an undisturbed run does, bit for bit."""
    assert len(EXAMPLE.read_text().splitlines()) <= 150
    command = ["train", "--import", "own_algorithm", "reinforce", "simple_spread", *FEW]
    assert cli.main([*command, "--steps", "6000", "--folder", "whole"]) == 0
    ends = [sys.executable, "-c", KILLED, *command, "--steps", "6000", "--folder", "killed"]
    assert subprocess.run(ends, capture_output=True).returncode == -signal.SIGKILL
    assert checkpoint.load_checkpoint(folder / "killed")["steps"] < 6000
    forget()
    capsys.readouterr()
    assert cli.main(["train", "--resume", "killed"]) == 2
    assert "imports in killed/config.toml must be trusted" in capsys.readouterr().err
    assert cli.main(["train", "--resume", "killed", "--trust"]) == 0
    kept = [checkpoint.load_state(folder / name)[0] for name in ("whole", "killed")]
    assert kept[0].keys() == kept[1].keys()
    assert all((kept[0][name] == kept[1][name]).all() for name in kept[0])

    forget()
    capsys.readouterr()
    assert cli.main(["eval", "killed", "--episodes", "3"]) == 2
    assert "got 'own_algorithm'" in capsys.readouterr().err
    assert cli.main(["eval", "killed", "--episodes", "3", "--import", "own_algorithm"]) == 0
    assert "return" in capsys.readouterr().out
    forget()
    assert cli.main(["watch", "killed", "--trust", "--out", "watched.gif"]) == 0
    forget()
    assert cli.main(["plot", "whole", "killed"]) == 0  # reads what files say, and runs nothing
    assert cli.main(["inspect", "killed"]) == 0
    assert "own_algorithm" not in sys.modules
    assert all((folder / name).stat().st_size > 1000 for name in ("watched.gif", "curves.png"))
    assert cli.main(["--import", "own_algorithm", "algorithms"]) == 0
    assert "reinforce  REINFORCE: raises the chance" in capsys.readouterr().out


def test_an_environment_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "train",
        "reinforce",
        "corridor",
        "--import",
        "own_algorithm",
        "--import=own_world",
        "--option",
        "length=3",
    ]
    few = [part for part in FEW if part != "--no-video"]
    assert cli.main([*command, *few, "--steps", "4000", "--folder", "run"]) == 0
    out = capsys.readouterr().out
    assert "episode.gif" in out
    assert read_config(Path("run/config.toml"))[2].imports == ("own_algorithm", "own_world")
    forget()
    assert cli.main(["eval", "run", "--trust"]) == 0
    returned = float(capsys.readouterr().out.split("return ")[1].split()[0])
    assert returned > 0.7  # at most three steps of -.1, and one for being there
    forget()
    assert cli.main(["envs", "corridor", "--import", "own_world"]) == 0
    assert "length = 5" in capsys.readouterr().out
    assert cli.main(["envs", "--import", "own_world"]) == 0
    assert "Walk to the end." in capsys.readouterr().out


@pytest.mark.slow
def test_modules_are_remembered_without_being_named(folder: Path) -> None:
    """In Python the class says where it is from; an algorithm of ours names nothing."""
    sys.path.append(str(folder))
    import own_algorithm  # type: ignore[import-not-found]
    import own_world  # type: ignore[import-not-found]  # noqa: F401

    few: dict[str, Any] = {"num_envs": 2, "steps": 100, "eval_episodes": 2, "video": False}
    rl.train(own_algorithm.ReinforceConfig(), "corridor", folder=folder / "mine", **few)
    assert read_config(folder / "mine" / "config.toml")[2].imports == ("own_algorithm", "own_world")
    rl.resume(folder / "mine", steps=200)  # what is imported needs no consent
    rl.train(MADDPGConfig(hidden=(8,)), "simple", folder=folder / "ours", **few)
    assert read_config(folder / "ours" / "config.toml")[2].imports == ()


def test_rollouts_go_on_where_environments_begin_anew(folder: Path) -> None:
    """Without a snapshot of the environment, a rollout that was half done is cut, not mixed up."""
    few = [*FEW[:2], "--eval-every", "5000", "--eval-episodes", "2", "--no-video", "--rollout", "20"]
    command = ["train", "--import", "own_algorithm", "reinforce", "gymnasium:CartPole-v1", *few]
    assert cli.main([*command, "--steps", "1000", "--folder", "run"]) == 0  # 12 rollouts of 80 steps, and a half
    kept = checkpoint.load_rollout(folder / "run")
    assert len(kept) == 40
    assert cli.main(["train", "--resume", "run", "--steps", "3000"]) == 0
    assert np.isfinite(checkpoint.load_checkpoint(folder / "run")["metrics"]["train/value_loss"])


@dataclasses.dataclass(frozen=True)
class Half:
    """Settings that lack something."""

    def schedule(self, num_envs: int) -> Any: ...


@pytest.mark.parametrize(
    ("make", "name", "about"),
    [
        (Half, "half", "settings of half"),
        (dict, "half", "settings of half"),
        (lambda: MADDPGConfig(), "mine", "settings of mine"),
        (MADDPGConfig, "a b", "name"),
    ],
)
def test_what_cannot_be_registered(make: Any, name: str, about: str) -> None:
    with refused(rl.errors.OptionError, about):
        registry.register(name)(make)
    assert name not in registry.algorithms()


def test_a_name_that_is_taken(folder: Path) -> None:
    with refused(rl.errors.OptionError, "name", got="'maddpg'"):

        @registry.register("maddpg")
        @dataclasses.dataclass(frozen=True)
        class Other:
            schedule = memory = learner = len

    with refused(rl.errors.OptionError, "import", got="'nowhere'"):
        import_typed(["--import", "nowhere"])
