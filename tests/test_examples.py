"""Every example runs, shortened, and does what the index says of it; the index lists all of them."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE

EXAMPLES = Path(__file__).parents[1] / "examples"
INDEX = (EXAMPLES / "README.md").read_text()
FILES = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb"))


def run(command: list[str], folder: Path) -> str:
    """What a command prints that is run in a folder of its own, by one thread."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(EXAMPLES)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def example(name: str, *flags: str, folder: Path) -> str:
    return run([sys.executable, str(EXAMPLES / f"{name}.py"), *flags], folder)


def values(text: str, name: str = "return") -> list[float]:
    """The numbers after a word, in the order they were printed."""
    return [float(value) for value in re.findall(rf"{name} (-?[\d.]+)", text)]


@pytest.mark.parametrize(
    ("name", "steps", "metric"),
    [
        ("dqn", 5_000, "return"),
        pytest.param("own_environment", 600, "return", marks=pytest.mark.slow),
        pytest.param("own_loss", 2_000, "return", marks=pytest.mark.slow),
        pytest.param("ppo", 10_240, "return", marks=pytest.mark.slow),
        pytest.param("sac", 600, "return", marks=pytest.mark.slow),
        pytest.param("hindsight", 2_000, "success", marks=pytest.mark.slow),
        pytest.param("r2d2", 5_000, "return", marks=pytest.mark.slow),
        pytest.param("actors", 3_200, "return", marks=pytest.mark.slow),
        pytest.param("own_encoder", 1_000, "return", marks=pytest.mark.slow),
        pytest.param("own_attention", 600, "return", marks=pytest.mark.slow),
        pytest.param("maddpg_own_network", 1_500, "return", marks=pytest.mark.slow),
    ],
)
def test_examples_run(name: str, steps: int, metric: str, tmp_path: Path) -> None:
    assert math.isfinite(values(example(name, "--steps", str(steps), folder=tmp_path), metric)[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "metric", "least"),
    [
        ("dqn", 5_000, "return", 50.0),  # a random policy's is 22
        ("ppo", 10_240, "return", 60.0),
        ("hindsight", 6_000, "success", 0.5),  # without hindsight 0
        ("r2d2", 20_000, "return", 0.7),  # by chance 0.5
        ("actors", 3_200, "return", 25.0),
        ("own_environment", 4_000, "return", -0.5),  # before -1
        ("own_loss", 12_000, "return", -30.5),  # before -31.1
        ("maddpg_own_network", 8_000, "return", -42.0),  # before -44
    ],
)
def test_examples_learn(name: str, steps: int, metric: str, least: float, tmp_path: Path) -> None:
    assert values(example(name, "--steps", str(steps), folder=tmp_path), metric)[-1] > least


def test_memory_alone_needs_numpy_alone(tmp_path: Path) -> None:
    bare = "import runpy, sys; sys.modules |= dict.fromkeys(('torch', 'gymnasium', 'matplotlib')); "
    bare += "sys.argv = ['memory.py', '--steps', '8000']; runpy.run_path(sys.argv.pop(0), run_name='__main__')"
    bare = bare.replace("sys.argv.pop(0)", f"{str(EXAMPLES / 'memory.py')!r}")
    text = run([sys.executable, "-c", bare], tmp_path)
    assert "draws the same batch: True" in text
    assert "Sequence  obs (32, 13, 1)  action (32, 12)" in text
    found = [float(value) for value in re.findall(r"V\(\S+\) ([\d.]+)", text)]
    assert found == sorted(found), "nearer to the goal is worth more"
    assert found[-1] > 0.3


@pytest.mark.slow
def test_offline_learning_beats_what_it_learned_from(tmp_path: Path) -> None:
    data, *learned = values(example("offline_minari", "--episodes", "60", "--updates", "400", folder=tmp_path))
    assert max(learned) > data


@pytest.mark.slow
def test_shards_on_ray(tmp_path: Path) -> None:
    text = example("ray_shards", "--steps", "2600", folder=tmp_path)
    assert math.isfinite(values(text)[-1])  # how much was learned by then depends on how busy the machine is
    inserted, sampled = (int(value.replace(",", "")) for value in re.findall(r"([\d,]+) (?:steps i|samples)", text))
    assert inserted > 1_000
    assert sampled == 64 * 1_050


def test_an_algorithm_by_the_command(tmp_path: Path) -> None:
    command = ["train", "--import", "own_algorithm", "reinforce", "CartPole-v1", "--steps", "4000", "--no-video"]
    command += ["--eval-every", "2000", "--eval-episodes", "10"]
    code = "import sys; from relive.cli import main; sys.exit(main(sys.argv[1:]))"
    text = run([sys.executable, "-c", code, *command, "--folder", "run"], tmp_path)
    assert (tmp_path / "run" / "checkpoint.json").exists()
    assert "return" in text


def test_pictures(tmp_path: Path) -> None:
    run([sys.executable, str(EXAMPLES / "pictures.py"), "images"], tmp_path)
    assert {"simple_spread.png", "marines_4v4.gif"} <= {path.name for path in (tmp_path / "images").iterdir()}


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".py")])
def test_examples_are_short_and_say_how_to_run_them(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert len(text.splitlines()) <= 150
    docstring = text.split('"""')[1]
    assert name.removesuffix(".py") in docstring, "the command"


def test_the_index_lists_every_example_once() -> None:
    listed = re.findall(r"^\| \[`(.+?)`\]\((.+?)\) \|", INDEX, re.M)
    assert all(name == target for name, target in listed)
    assert sorted(name for name, _ in listed) == FILES
    rows = [line for line in INDEX.splitlines() if line.startswith("| [")]
    assert all(len(line.split(" | ")) == 4 for line in rows), "file, what it shows, time, what it prints"
