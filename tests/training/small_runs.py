"""Small runs to look at, and whether two are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import relive
from relive.agents.maddpg import MADDPGConfig
from relive.agents.mappo import MAPPOConfig
from relive.agents.qmix import QMIXConfig
from relive.training import checkpoint
from relive.training.loggers import read_metrics

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))
MIXED = QMIXConfig(learning_starts=8, batch_size=8, buffer_size=40, hidden=8, mixing_units=4, hypernet_units=4)
CONTINUOUS = {"env_options": {"continuous_actions": True}}
PRIORITIZED = MADDPGConfig(
    learning_starts=300, batch_size=32, update_every=50, capacity=2000, hidden=(8,), per_alpha=0.5
)


def three_seeds(folder: Path) -> list[Path]:
    """Runs of three seeds beside each other in a folder, of 1,200 steps each."""
    found = []
    for seed in (1, 2, 3):
        path = folder / f"seed_{seed}"
        few: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 7, "video": False}
        relive.train(PRIORITIZED, "simple_spread", folder=path, steps=1200, seed=seed, **few)
        found.append(path)
    return found


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    """Everything that a checkpoint holds of learner, actor and environment, by name."""
    state, actor, env = checkpoint.load_state(folder)
    return {**state, **{f"actor {name}": value for name, value in actor.items()}} | {
        f"env {name}": torch.from_numpy(np.ascontiguousarray(v).view(np.int64)) for name, v in (env or {}).items()
    }


def same(one: Path, two: Path, *, averages: bool = False) -> None:
    """Whether two runs are the same bit for bit; averages between lines only where both wrote the same lines."""
    first, second = parameters(one), parameters(two)
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert torch.equal(value, second[key]), key
    batches = [checkpoint.load_memory(folder).sample(50) for folder in (one, two)]
    np.testing.assert_array_equal(batches[0].serials, batches[1].serials)
    np.testing.assert_array_equal(batches[0].lanes, batches[1].lanes)
    left_out = ("time/",) if averages else ("time/", "train/", "memory/")
    lines = [
        {line["step"]: {k: v for k, v in line.items() if not k.startswith(left_out)} for line in read_metrics(folder)}
        for folder in (one, two)
    ]
    assert [lines[1][step] for step in lines[0]] == list(lines[0].values())  # the other may have more, where it stopped


def checksum_of(facts: Mapping[str, Any]) -> str:
    """Of what a checkpoint.json says besides: SHA-256 of JSON in the order of names."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def one_of_each(folder: Path) -> dict[str, Path]:
    """A run of every kind of policy, by name."""
    few: dict[str, Any] = {"num_envs": 8, "steps": 800, "eval_every": 400, "eval_episodes": 7, "video": False}
    kinds: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "tag": (SMALL, "simple_tag", {}),
        "spread": (SMALL, "simple_spread", CONTINUOUS),
        "marines": (MIXED, "marines_3v3", {}),
        "cart": (MIXED, "gymnasium:CartPole-v1", {}),
        "recurrent": (MAPPOConfig(hidden=(8,), recurrent=True, epochs=1), "marines_3v3", {}),
        "chance": (MAPPOConfig(hidden=(8,), epochs=1, normalize_obs=True), "simple_tag", CONTINUOUS),
    }
    for name, (algorithm, env, more) in kinds.items():
        relive.train(algorithm, env, folder=folder / name, **few, **more)
    return {name: folder / name for name in kinds}


def logged(folder: Path, **settings: Any) -> list[dict[str, Any]]:
    """The lines of a run that was stopped once and resumed."""
    few: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "save_every": 400, "video": False}
    relive.train(SMALL, "simple_tag", folder=folder, steps=800, **few, **settings)
    relive.resume(folder, steps=1600)
    lines = read_metrics(folder)
    assert [line["step"] for line in lines] == [0, 400, 800, 1200, 1600]
    return lines
