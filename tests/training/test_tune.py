"""Sweeps: what is searched, what is given up, and what is left of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.agents.maddpg import MADDPGConfig
from relive.agents.registry import algorithms
from relive.agents.search import Choice, Range
from relive.training import RunConfig
from relive.training.config_file import read_config
from relive.training.tune import tune

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


SHORT = RunConfig(num_envs=8, steps=400, eval_every=200, eval_episodes=3, save_every=0, video=False, log=())


@pytest.mark.parametrize("name", list(algorithms()))
def test_ranges_are_of_settings_that_may_be(name: str) -> None:
    algorithm: Any = algorithms()[name]
    for setting, part in algorithm.search_space.items():
        ends = part.values if isinstance(part, Choice) else (part.low, part.high)
        for value in ends:
            changed = dataclasses.replace(algorithm, **{setting: value})
            assert type(value) is type(getattr(algorithm, setting))
            assert getattr(changed, setting) == value


def test_a_study_goes_on_where_it_stopped(tmp_path: Path) -> None:
    space: Any = {"actor_lr": Range(1e-4, 1e-2, log=True), "n_step": Range(1, 3), "hidden": Choice(((4,), (8, 8)))}
    heard = []
    options: dict[str, Any] = {"folder": tmp_path / "study", "config": SHORT, "search": space}
    first = tune(SMALL, "simple", trials=3, notify=lambda trial, best: heard.append((trial, best)), **options)
    assert [trial.number for trial, _ in heard] == [0, 1, 2]
    assert [best.value for _, best in heard] == list(np.maximum.accumulate([trial.value for trial, _ in heard]))
    assert first[0].value == max(trial.value for trial in first if trial.value is not None)
    again = tune(SMALL, "simple", trials=5, **options)
    assert len(again) == 5
    assert {trial.number: trial.settings for trial in first}.items() <= {t.number: t.settings for t in again}.items()
    for trial in again:
        assert 1e-4 <= trial.settings["actor_lr"] <= 1e-2
        assert trial.settings["n_step"] in (1, 2, 3)
        assert trial.settings["hidden"] in ((4,), (8, 8))
        _, algorithm, _ = read_config(tmp_path / "study" / f"trial_{trial.number}" / "config.toml")
        assert algorithm == dataclasses.replace(SMALL, **trial.settings)
    _, best, run = read_config(tmp_path / "study" / "best.toml")
    assert best == dataclasses.replace(SMALL, **again[0].settings)
    assert run.steps == 400


def test_runs_that_lag_behind_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs whose returns are as good as their setting: who is below half of the others is stopped, and not before
    there are five of them and a quarter of the steps is over.
    """

    def play(algorithm: Any, env: str, *, folder: Path, config: RunConfig, callbacks: list[Any]) -> Any:
        run = SimpleNamespace(steps=0, stopping=False)
        run.stop = lambda: setattr(run, "stopping", True)
        for run.steps in range(0, config.steps + 1, config.eval_every):
            for callback in callbacks:
                callback.on_evaluate(run, {"return": algorithm.gamma * run.steps / config.steps})
            if run.stopping:
                break
        return SimpleNamespace(interrupted=False)

    monkeypatch.setattr("relive.training.tune.train", play)
    config = dataclasses.replace(SHORT, steps=800, eval_every=100)
    space: Any = {"gamma": Range(0.1, 0.9)}
    found = tune(SMALL, "simple", trials=14, folder=tmp_path, config=config, search=space)
    pruned = [trial for trial in found if trial.state == "pruned"]
    assert pruned
    complete = [trial for trial in found if trial.state == "complete"]
    assert {trial.number for trial in complete} >= set(range(5))
    for trial in pruned:
        last = max(trial.curve)
        assert 200 <= last < 800
        assert trial.curve[last] < np.median([each.curve[last] for each in complete if each.number < trial.number])
    assert found == complete + pruned
    assert [trial.value for trial in complete] == sorted((trial.value for trial in complete), reverse=True)
    assert complete[0].value == complete[0].settings["gamma"]


def test_an_algorithm_without_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MADDPGConfig, "search_space", {})
    with refused(rl.errors.OptionError, "algorithm", got="maddpg"):
        tune(SMALL, "simple", trials=1, folder=tmp_path, config=SHORT)
