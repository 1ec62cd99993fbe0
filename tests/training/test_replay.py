"""A trained run, loaded to act again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import SMALL

import relive as rl
from refusals import refused
from relive.training.loggers import read_metrics
from relive.training.replay import load_run

FEW: dict[str, Any] = {"num_envs": 4, "steps": 400, "eval_every": 200, "eval_episodes": 3, "video": False, "log": ()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rl.train(SMALL, "simple", folder=tmp_path_factory.mktemp("runs") / "run", **FEW).folder


def test_it_is_the_run_at_its_end(folder: Path) -> None:
    found = load_run(folder)
    assert (found.env, found.algorithm, found.config.seed, found.steps) == ("simple", SMALL, 1, 400)
    assert found.evaluate(3)["return"] == pytest.approx(read_metrics(folder)[-1]["return"])
    assert found.evaluate(3, seed=9) == found.evaluate(3, seed=9)


def test_pictures_are_of_one_episode_by_its_seed(folder: Path) -> None:
    found = load_run(folder)
    one, again, other = (found.record_video(seed).frames for seed in (4, 4, 5))
    assert len(one) == 26
    np.testing.assert_array_equal(one, again)
    assert (np.asarray(one) != np.asarray(other)).any()


def test_folders_without_a_run(tmp_path: Path) -> None:
    with refused(rl.errors.RunError, "run"):
        load_run(tmp_path)
