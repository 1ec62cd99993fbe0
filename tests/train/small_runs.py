"""Small runs to look at, and whether two are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recollect import train
from recollect.agents.maddpg import MADDPGConfig
from recollect.train import checkpoint
from recollect.train.loggers import read_metrics

PRIORITIZED = MADDPGConfig(
    learning_starts=300, batch_size=32, update_every=50, capacity=2000, hidden=(8,), per_alpha=0.5
)


def three_seeds(folder: Path) -> list[Path]:
    """Runs of three seeds beside each other in a folder, of 1,200 steps each."""
    found = []
    for seed in (1, 2, 3):
        path = folder / f"seed_{seed}"
        few: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 7, "video": False}
        train.run(PRIORITIZED, "simple_spread", folder=path, steps=1200, seed=seed, **few)
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
