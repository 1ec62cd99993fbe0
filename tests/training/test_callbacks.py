"""Callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import relive
from relive.agents.maddpg import MADDPGConfig

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "save_every": 400, "video": False}


def test_callbacks_hear_everything_and_may_stop(tmp_path: Path) -> None:
    heard: list[str] = []

    class Everything:
        def on_step(self, run: Any) -> None:
            heard.append("step")
            if run.steps >= 600:
                run.stop()

        def on_update(self, run: Any, metrics: Any) -> None:
            heard.append("update")

        def on_evaluate(self, run: Any, metrics: Any) -> None:
            heard.append("evaluate")

        def on_save(self, run: Any) -> None:
            heard.append("save")
            assert (run.folder / "checkpoint.json").exists()

    result = relive.train(
        SMALL, "simple", folder=tmp_path / "run", steps=4000, callbacks=[Everything(), object()], **FEW
    )
    assert result.steps == 600
    assert [heard.count(what) for what in ("step", "update", "evaluate", "save")] == [75, result.updates, 2, 2]
    assert relive.resume(tmp_path / "run", steps=800).steps == 800
