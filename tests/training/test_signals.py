"""Ctrl-C and SIGTERM end a run with a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import relive
from relive.training import checkpoint
from waiting import PATIENCE

SHORT = "--num-envs 8 --eval-episodes 3 --batch-size 32 --hidden 8 --learning-starts 200 --no-video"


FLAGS = SHORT.split()


def test_ctrl_c_saves_and_exits_130(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "relive", "train", "maddpg", "simple_spread", "--folder", str(folder)]
    flags = [
        "--learning-starts",
        "500",
        "--batch-size",
        "64",
        "--hidden",
        "16",
        "--num-envs",
        "8",
        "--eval-every",
        "1000",
    ]
    process = subprocess.Popen(
        [*command, *flags, "--eval-episodes", "5", "--steps", "10000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout is not None
    while "steps/s" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    assert f"resume with: relive train --resume {folder}" in said
    steps = checkpoint.load_checkpoint(folder)["steps"]
    result = relive.resume(folder, steps=steps + 800)
    assert result.steps == steps + 800


@pytest.mark.slow
def test_sigterm_saves_and_exits_143(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "relive", "train", "maddpg", "simple", "--steps", "1e7", "--eval-every", "500"]
    process = subprocess.Popen(
        [*command, *FLAGS, "--folder", "run"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while "steps/s" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert "resume with: relive train --resume run" in said
    assert checkpoint.load_checkpoint(tmp_path / "run")["steps"] > 0
