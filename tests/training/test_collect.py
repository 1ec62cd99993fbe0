"""Actors in a run: what they are told, on environments of all kinds, and how updates follow episodes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import relive as rl
from relive import envs
from relive.agents.maddpg import MADDPGConfig
from relive.agents.qmix import QMIXConfig
from relive.agents.qmix_actor import QMIXActor
from relive.training import checkpoint
from relive.training.replay import load_run

SMALL = MADDPGConfig(learning_starts=500, batch_size=64, update_every=40, capacity=2000, hidden=(16,))
MIXED = QMIXConfig(
    learning_starts=8, batch_size=8, buffer_size=40, hidden=8, mixing_units=4, hypernet_units=4, epsilon_steps=3000
)
FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 1000, "eval_episodes": 5, "save_every": 700, "video": False}


@pytest.mark.filterwarnings("ignore:Calm takes a seed")
@pytest.mark.parametrize(
    "name",
    ["pettingzoo:mpe2.simple_spread_v3", "pettingzoo:mpe2.simple_speaker_listener_v4", "pymarl:pymarl_world:Calm"],
)
def test_episodes_of_an_adapted_environment(name: str, tmp_path: Path) -> None:
    few = FEW | {"num_envs": 2, "steps": 790, "eval_every": 400}
    rl.train(dataclasses.replace(MIXED, buffer_size=200), name, folder=tmp_path / "run", **few)
    result = rl.resume(tmp_path / "run", steps=1200, trust=True)
    assert np.isfinite(result.metrics["train/loss"])
    assert load_run(tmp_path / "run", trust=True).evaluate(3)["length"] > 1
    kept = checkpoint.load_memory(tmp_path / "run").episodes
    done = kept.terminated | kept.truncated
    limit = kept.length.max()
    assert (kept.length[done] != limit).sum() == 2  # those that were cut off by the stop
    assert (kept.length[~done] <= limit).all()


def test_actors_begin_anew_with_an_adapted_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = FEW | {"num_envs": 2, "steps": 790, "eval_every": 400}
    rl.train(MIXED, "pettingzoo:mpe2.simple_spread_v3", folder=tmp_path / "run", **few)
    calls: list[Any] = []
    act, ended = QMIXActor.act, QMIXActor.reset
    monkeypatch.setattr(QMIXActor, "act", lambda self, seen, step=0: calls.append("act") or act(self, seen, step))
    monkeypatch.setattr(QMIXActor, "reset", lambda self, rows: calls.append(rows.tolist()) or ended(self, rows))
    rl.resume(tmp_path / "run", steps=800)
    assert calls[:2] == [[True, True], "act"]


@pytest.fixture
def vector() -> Any:
    """CartPole by Gymnasium's own vector, where the step after an end only begins the next episode."""
    from relive.envs.adapters import FromGymnasiumVector
    from relive.envs.registry import _ENTRIES

    def make(num_envs: int = 1) -> Any:
        how = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        made = gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="sync", vector_kwargs=how)
        return FromGymnasiumVector(made)

    envs.register("vector_cartpole", make)
    yield "vector_cartpole"
    del _ENTRIES["vector_cartpole"]


def test_members_play_whole_episodes_where_lanes_wait(vector: str, tmp_path: Path) -> None:
    few = FEW | {"num_envs": 3, "steps": 1500, "eval_every": 1500}
    rl.train(dataclasses.replace(SMALL, ensemble=3), vector, folder=tmp_path / "run", **few)
    memory = checkpoint.load_memory(tmp_path / "run")
    kept, index = memory.episodes, memory["ensemble_index"][..., 0]
    whole = (kept.terminated | kept.truncated) & kept.whole
    rows = [index[lane, start : start + n] for lane, start, n in zip(kept.lane, kept.start, kept.length, strict=True)]
    assert len(rows) > 20
    assert all(len(set(each.tolist())) == 1 for each, there in zip(rows, whole, strict=True) if there)
    assert len({each[0] for each in rows}) == 3


def test_states_begin_anew_where_lanes_wait(vector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before every first step of an episode states are zero, and no action has been taken."""
    act, before = QMIXActor.act, {}

    def note(self: QMIXActor, seen: Any, step: int = 0) -> Any:
        for lane, obs in enumerate(seen["obs"]):
            kept = self.state_dict()
            states = kept["0.state"].view(len(seen["obs"]), -1)[lane]
            before[obs.tobytes()] = (states.any().item(), int(kept["0.last_action"][lane].max()))
        return act(self, seen, step)

    monkeypatch.setattr(QMIXActor, "act", note)
    algorithm = dataclasses.replace(MIXED, buffer_size=500)
    rl.train(algorithm, vector, folder=tmp_path / "run", **(FEW | {"num_envs": 3, "steps": 900, "eval_every": 900}))
    memory = checkpoint.load_memory(tmp_path / "run")
    kept = memory.episodes
    firsts = [before[memory["obs"][lane, start].tobytes()] for lane, start in zip(kept.lane, kept.start, strict=True)]
    assert len(firsts) > 20
    assert set(firsts) == {(False, -1)}
    seconds = [
        before[memory["obs"][lane, start + 1].tobytes()] for lane, start in zip(kept.lane, kept.start, strict=True)
    ]
    assert sum(states for states, _ in seconds) > 20


def test_what_actors_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far the run is, and of every end; the memory keeps the newest episodes, and gets its batches' errors."""
    told: dict[str, list[Any]] = {"steps": [], "ends": [], "errors": []}
    act, ended = QMIXActor.act, QMIXActor.reset
    update_priorities = rl.Memory.update_priorities
    monkeypatch.setattr(
        QMIXActor, "act", lambda self, seen, step=0: told["steps"].append(step) or act(self, seen, step)
    )
    monkeypatch.setattr(QMIXActor, "reset", lambda self, rows: told["ends"].append(rows.sum()) or ended(self, rows))
    monkeypatch.setattr(
        rl.Memory,
        "update_priorities",
        lambda self, batch, errors: told["errors"].append(errors) or update_priorities(self, batch, errors),
    )
    algorithm = dataclasses.replace(MIXED, per_alpha=0.5, buffer_size=20)
    few = FEW | {"steps": 1200, "eval_every": 10_000, "eval_episodes": 1}
    rl.train(algorithm, "marines_3v3", folder=tmp_path / "run", **few)
    counters = checkpoint.load_checkpoint(tmp_path / "run")
    begin = told["steps"].index(8) - 1  # after the evaluation of step 0, which says no steps
    assert told["steps"][begin : begin + 150] == list(range(0, 1200, 8))
    assert sum(told["ends"]) == counters["episodes"] + 2  # one of each evaluation
    assert len(told["errors"]) == counters["updates"]
    assert all((errors > 0).all() for errors in told["errors"])
    kept = checkpoint.load_memory(tmp_path / "run").episodes
    done = kept.terminated | kept.truncated
    assert done.sum() == algorithm.buffer_size
    assert kept.whole[done].all()


def test_updates_keep_their_ratio_to_episodes(tmp_path: Path) -> None:
    """However many environments step together, and whenever their episodes end."""
    for num_envs in (1, 7):
        folder = tmp_path / str(num_envs)
        rl.train(MIXED, "marines_3v3", folder=folder, **(FEW | {"num_envs": num_envs, "steps": 1001}))
        counters = checkpoint.load_checkpoint(folder)
        assert counters["episodes"] > 20
        assert counters["updates"] == counters["episodes"] - 7
