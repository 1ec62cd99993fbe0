"""Twenty thousand changed files, half of them with right checksums: read, or refused by an error of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNTS = {"runs": 4000, "configs": 3000, "snapshots": 4000, "rows": 2000, "npz": 2500, "hdf5": 2000, "minari": 2000}
COUNTS |= {"notes": 500}
assert sum(COUNTS.values()) == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTS)
def test_nothing_but_errors_comes_of_changed_files(kind: str, tmp_path: Path) -> None:
    """Under limits of memory, time and descriptors: nothing is run, and nothing is written or removed outside."""
    tests = Path(__file__).parents[1]
    places = os.pathsep.join(str(tests / name) for name in ("training", "memory", "compat"))
    script = Path(__file__).with_name("hostile_files.py")
    done = subprocess.run(
        [sys.executable, str(script), kind, str(COUNTS[kind]), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    refused = int(done.stdout.split()[-1])
    print(f"{kind}: {refused} of {COUNTS[kind]} refused")
    assert refused > COUNTS[kind] // 10
