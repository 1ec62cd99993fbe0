"""Settings of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.agents.maddpg import MADDPGConfig
from relive.training import RunConfig
from relive.training.config_file import read_config
from relive.training.settings import resolved

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"steps": 0}, "steps"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], about: str, tmp_path: Path) -> None:
    with refused(rl.errors.OptionError, about):
        rl.train(SMALL, "simple", folder=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_settings_that_numpy_made(tmp_path: Path) -> None:
    algorithm = MADDPGConfig(actor_lr=np.float64(1e-3), hidden=(np.int64(8),), learning_starts=np.int64(50))  # type: ignore[arg-type]
    rl.train(algorithm, "simple", folder=tmp_path / "run", steps=40, num_envs=4, eval_episodes=3, video=False)
    assert read_config(tmp_path / "run" / "config.toml")[1] == algorithm


@pytest.mark.parametrize(("steps", "every"), [(1_000_000, 50_000), (300, 15), (7, 1)])
def test_about_twenty_evaluations_by_default(steps: int, every: int) -> None:
    settings = resolved(SMALL, RunConfig(steps=steps))
    assert settings.eval_interval == every
    assert dataclasses.replace(settings, steps=10 * steps).eval_interval == -(-10 * steps // 20)
    assert resolved(SMALL, RunConfig(steps=steps, eval_every=3)).eval_every == 3
