"""Copies and pickles, paths that are none, snapshots that are not to be written over, journals that are full."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import checkable
import relive as rl
from refusals import refused
from test_crash import fill, new_memory


def test_copies_and_pickles_hold_everything(tmp_path: Path) -> None:
    memory = new_memory(450, rl.Prioritized(beta=rl.LinearSchedule(0.4, 1.0, steps=5)))
    fill(memory, 0, 600)
    memory.update_priorities(memory.sample(32), np.arange(32.0))
    for again in (copy.deepcopy(memory), copy.copy(memory), pickle.loads(pickle.dumps(memory))):
        assert len(again) == len(memory)
        np.testing.assert_array_equal(again.priorities, memory.priorities)
        assert again.random_state == memory.random_state
        fill(again, 600, 5)
    assert checkable.newest(memory) == [598, 598]
    with (
        new_memory(450, storage=rl.Mapped(tmp_path / "rows")) as mapped,
        refused(rl.errors.OptionError, "storage", got="another"),
    ):
        copy.deepcopy(mapped)


def test_an_empty_path_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the current one, whose files are not ours to touch."""
    monkeypatch.chdir(tmp_path)
    memory = new_memory(50)
    uses: list[tuple[str, Callable[[], object]]] = [
        ("folder", lambda: memory.save("")),
        ("folder", lambda: memory.save(None)),  # type: ignore[arg-type]
        ("folder", lambda: rl.Memory.load("")),
        ("path", lambda: memory.export("")),
        ("path", lambda: rl.Memory.from_dataset("")),
        ("path", lambda: rl.Mapped("")),
    ]
    for name, use in uses:
        with refused(rl.errors.OptionError, name):
            use()
    assert list(tmp_path.iterdir()) == []


def test_a_newer_snapshot_is_not_written_over(tmp_path: Path) -> None:
    memory = new_memory(50)
    fill(memory, 0, 10)
    memory.save(tmp_path / "saved")
    path = tmp_path / "saved" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"version": 1', b'"version": 2', 1))
    before = sorted((path.name, path.read_bytes()) for path in (tmp_path / "saved").iterdir())
    with refused(rl.errors.SnapshotError, "manifest.json", got="2"):
        memory.save(tmp_path / "saved")
    assert sorted((path.name, path.read_bytes()) for path in (tmp_path / "saved").iterdir()) == before


FULL = """
import resource, signal, sys
import checkable, relive as rl
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
memory = rl.Memory(checkable.SCHEMA, 4000, 1, seed=0)
memory.save(sys.argv[1], journal="written")
row = checkable.SCHEMA.row_nbytes
resource.setrlimit(resource.RLIMIT_FSIZE, (3000 * row, resource.RLIM_INFINITY))
block = {key: value[:, None] for key, value in checkable.block(0, 0, 3600).items()}
try:
    memory.extend(**block)
    raise SystemExit("stored")
except rl.errors.JournalError as error:
    print(error)
    assert (error.stored, error.steps, error.errno) == (2000, 3600, 27)
assert len(memory) == 2000, len(memory)
checkable.check_lanes(memory)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
again = rl.Memory.load(sys.argv[1])
assert len(again) == 2000
"""


def test_a_journal_that_cannot_be_written_says_how_many_steps_it_took(tmp_path: Path) -> None:
    """A long block is logged in chunks: those before the disk was full are in memory and in the journal."""
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r})" + FULL, str(tmp_path / "saved")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (
        "journal must take every step, got File too large. 2000 of 3600 were stored. "
        "Make room, then append the others again."
    )
