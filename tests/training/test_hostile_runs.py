"""Run folders whose files were changed, also with right checksums: an error of ours, or a run that is read."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from small_runs import checksum_of

import relive as rl
from address_space import limited
from relive.agents.maddpg import MADDPGConfig
from relive.errors import ReliveError
from relive.training import checkpoint
from relive.training.config_file import describe_run
from relive.training.curves import draw_runs
from relive.training.loggers import read_metrics
from relive.training.replay import load_run
from relive.training.status import read_status
from relive.web.runs import Runs

VALUES: list[Any] = [
    None, 0, -1, 2**70, 1.5, float("nan"), float("inf"), "", "x", "../..", "/etc/passwd", "a" * 5000, "\udfff", [], {},
    [[]], True, "ray://198.51.100.7:1", "os:system", ["wandb"], ["os"],
]  # fmt: skip
FILES = ("config.toml", "checkpoint.json", "metrics.jsonl", "status.json", "state-0.safetensors", "state-1.safetensors")


def train(folder: Path) -> None:
    config = MADDPGConfig(hidden=(8,), batch_size=16, learning_starts=50, capacity=1000)
    rl.train(
        config, "simple", folder=folder, steps=200, num_envs=4, eval_every=100, eval_episodes=2, video=False, log=()
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(folder)
    return folder


@pytest.fixture
def _little_memory() -> Iterator[None]:
    with limited(4 << 30):
        yield


def changed_bytes(data: bytes, random: np.random.Generator) -> bytes:
    found = bytearray(data)
    for _ in range(random.integers(1, 5)):
        at = int(random.integers(0, len(found) + 1))
        ways = (random.bytes(1), b"", random.bytes(9), b'"', b"{" * 2000, b"9" * 5000)
        found[at : at + int(random.integers(0, 9))] = ways[random.integers(0, len(ways))]
    return bytes(found)


def changed_value(value: Any, random: np.random.Generator) -> Any:
    """The same data with one part changed."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = str(random.choice(sorted(value)))
        if random.random() < 0.15:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: changed_value(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.5:
        return [changed_value(value[0], random), *value[1:]]
    return VALUES[random.integers(0, len(VALUES))]


def toml_of(data: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {text(part)}" for key, part in value.items()) + "}"
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        if isinstance(value, float):
            return repr(value)
        return '"none"' if value is None else json.dumps(value)

    return "\n".join(f"{json.dumps(key)} = {text(value)}" for key, value in data.items()) + "\n"


def change_config(path: Path, random: np.random.Generator) -> None:
    """Any bytes, or another meaning."""
    if random.random() < 0.5:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    else:
        settings = changed_value(tomllib.loads(path.read_text()), random)
        path.write_text(toml_of(settings if isinstance(settings, dict) else {"x": settings}), errors="replace")


def change(folder: Path, random: np.random.Generator) -> None:
    """One file changed: any bytes, or its meaning with a checksum that fits."""
    name = str(random.choice([each for each in FILES if (folder / each).exists()]))
    path = folder / name
    if name == "config.toml":
        change_config(path, random)
    elif random.random() < 0.5:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    elif name == "checkpoint.json":
        counters = json.loads(path.read_text())
        del counters["checksum"]
        counters = changed_value(counters, random)
        if isinstance(counters, dict):
            counters["checksum"] = checksum_of(counters)
        path.write_text(json.dumps(counters))
    elif name.endswith(".safetensors"):
        tensors = load(path.read_bytes())
        key = str(random.choice(sorted(tensors)))
        ways = (
            tensors[key].reshape(-1)[:1],
            tensors[key].astype(np.float16),
            np.zeros((0, 3)),
            np.asarray(tensors[key] * np.nan),
        )
        path.write_bytes(save({**tensors, key: ways[random.integers(0, len(ways))]}))
        counters = json.loads((folder / "checkpoint.json").read_text())
        del counters["checksum"]
        counters["state"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "checkpoint.json").write_text(json.dumps({**counters, "checksum": checksum_of(counters)}))
    else:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[0] = changed_value(lines[0], random)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def look_at(folder: Path, plot: Path, *, draw: bool = False) -> list[ReliveError]:
    """Everything that reads a run; returns how the folder was refused. The page refuses none."""
    looks: list[Callable[[Path], Any]] = [describe_run, read_metrics, read_status, checkpoint.load_memory, load_run]
    if draw:  # takes longer than all else
        looks.append(lambda run: draw_runs([run], plot))
    refused: list[ReliveError] = []
    for look in looks:
        try:
            look(folder)
        except ReliveError as error:
            refused.append(error)
    runs = Runs(folder.parent)
    for shown in (runs.listed(), runs.about(folder.name), runs.curve(folder.name, "return")):
        json.dumps(shown, allow_nan=False).encode()
    return refused


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_little_memory")
def test_changed_run_folders(trained: Path, tmp_path: Path) -> None:
    random, refused, folder = np.random.default_rng(60), 0, tmp_path / "runs" / "run"
    for number in range(60):
        shutil.copytree(trained, folder)
        change(folder, random)
        refused += len(look_at(folder, tmp_path / "plot.png", draw=number % 20 == 0))
        shutil.rmtree(folder)
        assert not {path.name for path in tmp_path.rglob("*")} - {"runs", "plot.png"}
    assert refused > 30
