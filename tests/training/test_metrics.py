"""What is measured of a run while it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import logged

import relive
from relive.agents.maddpg import MADDPGConfig

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "save_every": 400, "video": False}


def test_lines_say_what_there_is_to_know(tmp_path: Path) -> None:
    *_, last = logged(tmp_path / "run")
    assert {"adversary/return", "agent/return", "length", "info/caught"} <= set(last)
    averages = {"critic_loss", "critic_grad_norm", "actor_loss", "actor_grad_norm", "return"}
    assert {f"train/{group}/{name}" for group in ("agent", "adversary") for name in averages} <= set(last)
    assert last["train/length"] == 25
    assert last["memory/reuse"] == pytest.approx(32 / 40, rel=0.1)  # rows of a batch, over steps for an update
    assert 0 < last["memory/age"] < 1600
    assert last["time/steps_per_second"] > 0
    assert last["train/updates"] == (1600 - 200) // 40 + 1


def test_averages_are_over_all_updates_since_the_last_line(tmp_path: Path) -> None:
    losses: list[float] = []

    class Listen:
        def on_update(self, run: Any, metrics: Any) -> None:
            losses.append(metrics["agent/critic_loss"])

        def on_evaluate(self, run: Any, metrics: Any) -> None:
            if run.steps and losses:
                assert metrics["train/agent/critic_loss"] == pytest.approx(sum(losses) / len(losses))
                losses.clear()

    relive.train(SMALL, "simple_tag", folder=tmp_path / "run", steps=1600, callbacks=[Listen()], **FEW)
    assert not losses
