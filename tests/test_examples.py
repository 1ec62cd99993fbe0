"""The loops of one file run and learn something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(("name", "steps", "best"), [("dqn", 5_000, 50), ("ppo", 10_240, 60), ("sac", 2_000, -3_000)])
def test_loops_of_one_file(name: str, steps: int, best: float) -> None:
    file = EXAMPLES / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(file), "--steps", str(steps)], capture_output=True, text=True, check=True, timeout=300
    )
    assert float(re.findall(r"return (-?[\d.]+)", done.stdout)[-1]) > best
    assert len(file.read_text().splitlines()) <= 150
