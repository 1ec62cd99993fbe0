"""Checkpoints: whole or not at all, and believed only as far as they can be."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from small_runs import checksum_of, same

import relive as rl
from refusals import refused
from relive import run_files
from relive.agents.maddpg import MADDPGConfig
from relive.training import checkpoint
from relive.training.checkpoint import kept_steps
from relive.training.loggers import read_metrics
from relive.training.replay import load_run

SMALL = MADDPGConfig(learning_starts=500, batch_size=64, update_every=40, capacity=2000, hidden=(16,))


FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 1000, "eval_episodes": 5, "save_every": 700, "video": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny = MADDPGConfig(hidden=(4,), batch_size=16, learning_starts=50, capacity=500)
    few: dict[str, Any] = {"steps": 200, "num_envs": 4, "eval_every": 200, "eval_episodes": 1, "video": False}
    few |= {"log": (), "env_options": {"max_cycles": 5}}
    rl.train(tiny, "simple", folder=tmp_path / "run", **few)
    return tmp_path / "run"


def test_a_full_disk_costs_nothing_that_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    real = run_files.write
    calls = [0]

    def write(folder: Path, name: str, data: bytes) -> None:
        calls[0] += name.startswith(("state", "checkpoint"))
        if calls[0] == 7 and name.startswith("state"):
            (folder / f"{name}.new").write_bytes(data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        real(folder, name, data)

    monkeypatch.setattr(run_files, "write", write)
    with pytest.raises(OSError, match="No space left"):
        rl.train(SMALL, "simple_spread", folder=folder, steps=4000, **FEW)
    monkeypatch.setattr(run_files, "write", real)
    assert checkpoint.load_checkpoint(folder)["steps"] in (2104, 2112)
    rl.resume(folder)
    rl.train(SMALL, "simple_spread", folder=tmp_path / "whole", steps=4000, **FEW)
    same(tmp_path / "whole", folder, averages=True)


SCRIPT = """
import sys
from relive.agents.maddpg import MADDPGConfig
import relive as rl
from relive.training import checkpoint
from relive.training.checkpoint import kept_steps
folder = sys.argv[1]
small = MADDPGConfig(learning_starts=200, batch_size=16, update_every=40, capacity=1000, hidden=(8,))
few = {"num_envs": 8, "eval_every": 500, "eval_episodes": 2, "save_every": 100, "video": False}
from pathlib import Path
def progress(steps, total, metrics):
    if steps % 40 == 0:
        print(steps, flush=True)
if checkpoint.exists(Path(folder)):
    rl.resume(folder, progress=progress)
else:
    rl.train(small, "simple_spread", folder=folder, steps=2000, progress=progress, **few)
"""


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """SIGKILL wherever it strikes; resumed until it is through, the run is bit for bit the one that nobody killed."""
    random = np.random.default_rng(7)
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    subprocess.run([sys.executable, "-c", SCRIPT, str(whole)], check=True, capture_output=True)
    kills = 0
    while kills < 8:
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(int(random.integers(4, 12))):
            process.stdout.readline()
        time.sleep(random.random() * 0.05)
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        if not checkpoint.exists(folder) and folder.exists():
            shutil.rmtree(folder)  # killed before the first checkpoint: begun anew
        elif process.returncode == 0:  # faster than the killer: begun anew too
            same(whole, folder, averages=True)
            shutil.rmtree(folder)
    subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], check=True, capture_output=True)
    same(whole, folder, averages=True)


def test_networks_that_are_not_numbers_are_not_saved(tmp_path: Path) -> None:
    wild = MADDPGConfig(hidden=(8,), batch_size=8, learning_starts=10, capacity=200, actor_lr=1e37)
    with refused(rl.errors.RunError, "actor_grad_norm, actor_loss"):
        rl.train(wild, "simple_spread", folder=tmp_path / "run", steps=2000, num_envs=2, eval_every=2000, video=False)
    assert not checkpoint.exists(tmp_path / "run")


def test_checkpoints_of_other_versions_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    rl.train(SMALL, "simple", folder=folder, steps=200, **{**FEW, "eval_every": 200})
    (folder / "checkpoint.json").write_text('{"format": "relive checkpoint", "version": 2, "place": 0}')
    with pytest.raises(rl.errors.RunError) as caught:
        rl.resume(folder)
    assert caught.value.problem.rule == "be a checkpoint of version 1"
    assert caught.value.problem.got == "'relive checkpoint', version 2"
    assert len(rl.Memory.load(folder / "memory-0")) > 0


def test_earlier_states_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    few = {**FEW, "eval_every": 400, "eval_episodes": 3, "save_every": 400}
    rl.train(SMALL, "simple", folder=folder, steps=2000, keep_checkpoints=3, **few)
    assert kept_steps(folder) == [1200, 1600, 2000]
    returns = {line["step"]: line["return"] for line in read_metrics(folder)}
    for step in kept_steps(folder):
        assert load_run(folder, step=step).evaluate(3)["return"] == pytest.approx(returns[step])
    with refused(rl.errors.RunError, "step", got="400"):
        load_run(folder, step=400)


def test_a_damaged_checkpoint_is_found(folder: Path) -> None:
    path = folder / "checkpoint.json"
    whole = path.read_text()
    path.write_text(whole.replace('"steps": 200', '"steps": 201'))
    with refused(rl.errors.RunError, "checkpoint.json", got="another checksum"):
        load_run(folder)
    facts = json.loads(whole)
    del facts["checksum"]
    for name in facts:
        for value in (None, -1, "x", [], {"x": 1}, 1e300, True):
            changed = {**facts, name: value}
            path.write_text(json.dumps({**changed, "checksum": checksum_of(changed)}))
            with contextlib.suppress(rl.errors.ReliveError):
                load_run(folder)
    for text in ("[]", "3", "null", "[" * 100_000, ""):
        path.write_text(text)
        with pytest.raises(rl.errors.RunError):
            load_run(folder)


def test_a_state_of_something_else_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that are missing, of other shapes or types, or too many, behind right checksums."""
    monkeypatch.setattr("relive.training.loop.draw_curve", lambda *_: None)
    facts = json.loads((folder / "checkpoint.json").read_text())
    del facts["checksum"]
    path = folder / f"state-{facts['place']}.safetensors"
    whole = load(path.read_bytes())
    refused = 0
    for name, value in whole.items():
        others = [
            None,
            value.reshape(-1)[:0],
            torch.zeros(3, 5, 7),
            value.to(torch.float64),
            torch.full_like(value, -9),
        ]
        for other in others:
            tensors = {**whole, name: other} if other is not None else {k: v for k, v in whole.items() if k != name}
            data = save({key: tensor.contiguous() for key, tensor in tensors.items()})
            path.write_bytes(data)
            changed = {**facts, "state": hashlib.sha256(data).hexdigest()}
            changed["checksum"] = checksum_of(changed)
            (folder / "checkpoint.json").write_text(json.dumps(changed))
            try:
                rl.resume(folder, steps=204)
            except rl.errors.ReliveError:
                refused += 1
    assert refused > len(whole)
