"""Actors in processes: whole rows, updates in step with them, and whoever is killed is started again."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing as mp
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import relive as rl
from refusals import refused
from relive.agents.interface import Weights
from relive.agents.maddpg import MADDPGConfig
from relive.agents.qmix import QMIXConfig
from relive.training import checkpoint
from relive.training.actors import _Board, _Published
from relive.training.loggers import read_metrics
from waiting import PATIENCE, until

UNIT = 2.0**-14  # telltale_world's
SMALL = MADDPGConfig(learning_starts=500, batch_size=32, update_every=10, capacity=20_000, hidden=(8,))
FEW: dict[str, Any] = {"num_envs": 4, "actors": 2, "eval_every": 2000, "eval_episodes": 2, "video": False}


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's module can be imported here and in processes."""
    here = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
    import telltale_world  # type: ignore[import-not-found]  # noqa: F401


def check_rows(memory: rl.Memory) -> int:
    """Every row is whole, and follows the one before it; returns how many were looked at."""
    seen = 0
    episodes = memory.episodes
    span = memory.capacity // memory.lanes
    for lane, start, length in zip(episodes.lane, episodes.start, episodes.length, strict=True):
        first = max(int(start), 0)
        rows = memory["obs"][lane, np.arange(first, start + length) % span, 0]
        assert (rows[:, 1:] == rows[:, 1:2]).all(), "a torn row"
        assert (rows[:, 0] == rows[0, 0]).all(), "rows of two environments in an episode"
        assert (np.diff(rows[:, 1]) == UNIT).all(), "a step is missing"
        rewards = memory["reward"][lane, np.arange(first, start + length) % span, 0]
        ended = (episodes.terminated | episodes.truncated)[(episodes.lane == lane) & (episodes.start == start)][0]
        whole = slice(None) if ended else slice(-1)
        assert (rewards[whole] == rows[whole, 1] + UNIT).all(), "the reward of another step"
        seen += len(rows)
    return seen


def ratio(folder: Path, algorithm: Any) -> float:
    """Updates there were over those that were due."""
    counters = checkpoint.load_checkpoint(folder)
    due = algorithm.schedule(4).updates_due(counters["steps"], counters["episodes"])
    return counters["updates"] / due


def wait_until_gone() -> None:
    """No process of ours is left, in a while."""
    until(lambda: not mp.active_children())


def processes(group: int) -> int:
    """Processes of a group that have not ended."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = path.read_text().rpartition(")")[2].split()[:3]
            found += int(of) == group and state != "Z"
    return found


def wait_until_nobody_is_left(group: int) -> None:
    """No process of a group is left; on a busy machine one may need minutes to notice that it is alone."""
    until(lambda: not processes(group), pause=0.1)


def test_rows_are_whole_and_updates_in_step(tmp_path: Path) -> None:
    ahead = []

    class Watch:
        def on_step(self, run: Any) -> None:
            ahead.append(SMALL.schedule(4).updates_due(run.steps, run.episodes) - run.updates)

    result = rl.train(SMALL, "telltale", folder=tmp_path / "run", steps=3000, callbacks=[Watch()], **FEW)
    assert result.steps == 3000
    assert ratio(tmp_path / "run", SMALL) == 1.0
    assert max(ahead) <= 0  # whatever is due is done before the next look
    assert check_rows(checkpoint.load_memory(tmp_path / "run")) > 2500
    line = read_metrics(tmp_path / "run")[-1]
    assert line["train/length"] == 7
    assert line["memory/reuse"] == pytest.approx(3.2, rel=0.1)
    wait_until_gone()
    rl.resume(tmp_path / "run", steps=4000)
    assert checkpoint.load_checkpoint(tmp_path / "run")["steps"] == 4000
    assert ratio(tmp_path / "run", SMALL) == 1.0
    check_rows(checkpoint.load_memory(tmp_path / "run"))


def test_rows_of_the_board_are_read_whole() -> None:
    """While another process writes them, all numbers of a row are of the same step."""
    names = tuple(f"return {number}" for number in range(998))
    board = _Board(
        published=_Published(Weights(0, {})),
        counters=mp.RawArray(ctypes.c_double, 2 * 2 * 1000),
        heads=mp.RawArray(ctypes.c_int64, 2),
        learner=mp.RawArray(ctypes.c_int64, 3),
        actors=2,
        names=names,
    )

    def count() -> None:
        for number in range(1, 50_001):
            board.write(1, np.full(1000, number, float))

    writer = mp.get_context("fork").Process(target=count)
    writer.start()
    seen = set()
    while writer.is_alive():
        idle, busy = board.table()
        assert (idle == 0).all()
        assert (busy == busy[0]).all()
        seen.add(busy[0])
    writer.join()
    assert board.read(1)[0] == 50_000
    assert len(seen) > 20


@pytest.mark.slow
def test_episodes_are_kept_and_their_updates_counted(tmp_path: Path) -> None:
    config = QMIXConfig(learning_starts=8, batch_size=8, buffer_size=40, hidden=8, mixing_units=4, hypernet_units=4)
    rl.train(config, "telltale", folder=tmp_path / "run", steps=2000, **FEW)
    assert ratio(tmp_path / "run", config) == 1.0
    memory = checkpoint.load_memory(tmp_path / "run")
    check_rows(memory)
    ended = memory.episodes.terminated | memory.episodes.truncated
    assert ended.sum() == 40


@pytest.mark.slow
def test_actors_that_are_killed_are_started_again(tmp_path: Path) -> None:
    """At random moments, while learning goes on: no torn row, no lost lane, updates within 5% of what is due."""
    killed: list[int] = []
    dice = random.Random(0)

    class Killer:
        next = 500

        def on_step(self, run: Any) -> None:
            if run.steps >= self.next and mp.active_children():
                self.next += 500
                victim = dice.choice(mp.active_children())
                os.kill(victim.pid, dice.choice([signal.SIGKILL, signal.SIGTERM]))
                killed.append(victim.pid)

    few = {**FEW, "env_options": {"sleep": 0.0005}, "eval_every": 10_000}
    result = rl.train(SMALL, "telltale", folder=tmp_path / "run", steps=3000, callbacks=[Killer()], **few)
    assert result.steps == 3000
    assert len(killed) >= 4
    assert ratio(tmp_path / "run", SMALL) == pytest.approx(1, abs=0.05)
    memory = checkpoint.load_memory(tmp_path / "run")
    assert check_rows(memory) > 2400
    who = {float(number) for number in memory["obs"][..., 0, 0].ravel() if number}
    assert len(who) > 4  # environments of those who took over, as far as they came to step
    wait_until_gone()


@pytest.mark.slow
def test_a_learner_that_has_nothing_to_learn_from_holds_nobody_up(tmp_path: Path) -> None:
    """Updates are due from the first step on, but windows of twelve steps can be read much later."""
    config = MADDPGConfig(learning_starts=0, update_every=1, n_step=12, batch_size=16, capacity=20_000, hidden=(8,))
    result = rl.train(config, "simple_spread", folder=tmp_path / "run", **{**FEW, "steps": 400})
    assert result.steps == 400
    assert ratio(tmp_path / "run", config) == 1.0


def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    flags = "--actors 2 --num-envs 4 --no-video --eval-every 500 --eval-episodes 2 --steps 1e6 --folder run"
    command = [sys.executable, "-m", "relive", "train", "maddpg", "telltale", "--import", "telltale_world"]
    process = subprocess.Popen([*command, *flags.split()], cwd=tmp_path, start_new_session=True)
    until(lambda: len(read_metrics(tmp_path / "run")) >= 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    assert process.wait(PATIENCE) == 130
    assert checkpoint.load_checkpoint(tmp_path / "run")["steps"] > 0
    wait_until_nobody_is_left(process.pid)


@pytest.mark.parametrize("begun", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_actors_end_when_the_learner_is_killed(tmp_path: Path, begun: bool) -> None:
    """Also actors that were still being started."""
    code = (
        "import relive as rl; import telltale_world; from relive.agents.maddpg import MADDPGConfig\n"
        "if __name__ == '__main__': rl.train(MADDPGConfig(), 'telltale', folder='run', num_envs=4, actors=2)"
    )
    (tmp_path / "script.py").write_text(code)
    process = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, start_new_session=True)
    # Evaluations begin once actors have been started; processes appear before they run anything.
    while process.poll() is None and not (read_metrics(tmp_path / "run") if begun else processes(process.pid) > 2):
        time.sleep(0.01)
    before = {path.name for path in Path("/dev/shm").glob(f"relive-run-{process.pid}-*")}
    process.kill()
    process.wait()
    wait_until_nobody_is_left(process.pid)
    assert before
    left = list(Path("/dev/shm").glob(f"relive-run-{process.pid}-*"))
    for path in left:  # no actor had opened it, so none could remove it: the next run does
        assert not begun
        rl.Shared.sweep()
        assert not path.exists()


@pytest.mark.slow
def test_an_environment_that_breaks_is_named(tmp_path: Path) -> None:
    few = {**FEW, "env_options": {"fail_after": 300}, "eval_episodes": 1}
    with refused(rl.errors.RunError, "actor ?"):
        rl.train(SMALL, "telltale", folder=tmp_path / "run", steps=6000, **few)
    wait_until_gone()


def test_what_cannot_be(tmp_path: Path) -> None:
    with refused(rl.errors.OptionError, "num_envs", got="3"):
        rl.train(SMALL, "telltale", folder=tmp_path / "run", **{**FEW, "num_envs": 3})
    with refused(rl.errors.OptionError, "actors"):
        rl.train(
            SMALL, "simple", folder=tmp_path / "run", network=lambda inputs, outputs: nn.Linear(inputs, outputs), **FEW
        )
    assert not list(Path("/dev/shm").glob(f"relive-run-{os.getpid()}-*"))
