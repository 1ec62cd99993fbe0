"""Saving: what is written again, one instant of a memory in use, and saves beside each other."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkable
import relive as rl
from disks import save_on
from relive.memory.snapshot import saving
from test_crash import fill, fingerprint, new_memory
from waiting import PATIENCE


def same_batches(one: rl.Memory, two: rl.Memory, size: int = 16, count: int = 5) -> None:
    for _ in range(count):
        a, b = one.sample(size), two.sample(size)
        assert list(a) == list(b)
        for key in a:
            np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def row_files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.glob("rows-*")}


def test_saving_again_writes_what_is_new(tmp_path: Path) -> None:
    """A tenth of the rows is new: about a tenth of the bytes is written, and old files go with the rows in them."""
    folder = tmp_path / "saved"
    schema = rl.Schema(obs=rl.Field((17,)), action=rl.Field((6,)))
    memory = rl.Memory(schema, 400_000, 4, seed=0)

    def steps(time: int) -> dict[str, Any]:
        return {
            "obs": np.random.default_rng(time).standard_normal((time, 4, 17), np.float32),
            "action": np.zeros((time, 4, 6), np.float32),
            "reward": np.zeros((time, 4), np.float32),
            "terminated": np.zeros((time, 4), bool),
            "truncated": np.zeros((time, 4), bool),
        }

    memory.extend(**steps(100_000))
    memory.save(folder)
    first = row_files(folder)
    memory.extend(**steps(10_000))
    memory.save(folder)
    second = row_files(folder)
    new = sum(size for name, size in second.items() if name not in first)
    assert 0.1 <= new / sum(first.values()) < 0.15
    assert sum(second.values()) < 1.1 * sum(first.values())
    memory.save(folder)
    third = row_files(folder)
    assert sum(size for name, size in third.items() if name not in second) < 0.05 * sum(first.values())
    same_batches(memory, rl.Memory.load(folder))


def test_many_small_saves_do_not_leave_many_files(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    memory = new_memory(20_000, rl.Uniform())
    for first in range(0, 30_000, 500):
        fill(memory, first, 500)
        memory.save(folder)
    assert len(row_files(folder)) <= 12
    assert sum(row_files(folder).values()) < 1.7 * 40_000 * (checkable.SCHEMA.row_nbytes + 1)
    loaded = rl.Memory.load(folder)
    same_batches(memory, loaded)
    checkable.check_lanes(loaded, cuts=0)


def test_a_lane_that_stands_still_does_not_keep_old_files(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    memory = new_memory(4000, rl.Uniform())
    memory.extend(lanes=0, **checkable.block(0, 0, 100))
    for first in range(0, 40_000, 1000):
        memory.extend(lanes=1, **checkable.block(1, first, 1000))
        memory.save(folder)
    assert sum(row_files(folder).values()) < 3 * 4100 * (checkable.SCHEMA.row_nbytes + 1)
    same_batches(memory, rl.Memory.load(folder))


def test_two_memories_that_part_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both come from one snapshot and save to its folder by turns: each finds its own rows, not the other's."""
    monkeypatch.setattr(saving, "SEGMENT_ROWS", 128)
    folder = tmp_path / "saved"
    memory = new_memory(2000)
    fill(memory, 0, 1000)
    memory.save(folder)
    one, two = rl.Memory.load(folder), rl.Memory.load(folder)
    for lane in range(2):
        one.cut(lane)
    fill(one, 5000, 300)
    fill(two, 1000, 200)
    one.save(folder)
    two.save(folder)
    same_batches(rl.Memory.load(folder), two)
    one.save(folder)
    same_batches(rl.Memory.load(folder), one)


def test_a_segment_that_went_missing_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "SEGMENT_ROWS", 128)
    memory = new_memory(1000)
    fill(memory, 0, 900)
    memory.save(tmp_path / "saved")
    first, second, *_ = sorted((tmp_path / "saved").glob("rows-*"))
    first.unlink()
    second.write_bytes(b"short")
    memory.save(tmp_path / "saved")
    same_batches(memory, rl.Memory.load(tmp_path / "saved"))


def test_folders_above_are_made_safe_too(tmp_path: Path) -> None:
    from relive.memory.snapshot import SystemDisk

    synced = []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            return getattr(SystemDisk(), name)

        def sync_folder(self, folder: Path) -> None:
            synced.append(folder)

    save_on(new_memory(20), tmp_path / "a" / "b" / "c", Watching())
    assert synced[:3] == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]


def test_several_folders_by_turns_are_all_saved_in_part(tmp_path: Path) -> None:
    memory = new_memory(30_000, rl.Uniform())
    fill(memory, 0, 25_000)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        memory.save(folder)
    before = row_files(folders[0])
    fill(memory, 25_000, 10)
    for folder in folders:
        memory.save(folder)
    after = row_files(folders[0])
    assert sum(size for name, size in after.items() if name not in before) < 0.5 * sum(before.values())


def test_a_save_in_a_thread_is_one_instant(tmp_path: Path) -> None:
    """Rows are appended, cut and cleared away while a full ring is saved; every snapshot is a state that there was."""
    memory = new_memory(20_000, rl.Prioritized())
    fill(memory, 0, 25_000)
    states: list[Any] = []
    stop = threading.Event()
    failed: list[BaseException] = []

    def saver() -> None:
        try:
            for number in range(6):
                memory.save(tmp_path / str(number))
        except BaseException as error:
            failed.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=saver)
    number = 25_000
    thread.start()
    while not stop.is_set():
        # Both lanes at once, so that a lane ahead of the other would be seen.
        steps = [checkable.block(lane, number, 50) for lane in range(2)]
        memory.extend(**{key: np.stack([step[key] for step in steps], 1) for key in steps[0]})
        memory.update_priorities(memory.sample(32), np.arange(32.0))
        number += 50
        states.append(number)
    thread.join()
    assert not failed
    for which in range(6):
        loaded = rl.Memory.load(tmp_path / str(which))
        lanes = checkable.check_lanes(loaded, cuts=0)
        assert lanes[0] == lanes[1]
        assert lanes[0][-1] + 2 in {25_000, *states} or lanes[0][-1] + 1 in {25_000, *states}
        closed = int((loaded.episodes.terminated | loaded.episodes.truncated).sum())
        assert 40_000 - closed - 2 <= len(loaded) <= 40_000 - closed  # of the oldest episode only its end may be left
        assert (loaded.priorities > 0).sum() == loaded.ready
    assert len(states) > 6


def test_appending_goes_on_while_a_save_is_slow(tmp_path: Path) -> None:
    """A memory that is not full has nothing to overwrite, so nobody waits."""
    from relive.memory.snapshot import SystemDisk

    writing, go_on = threading.Event(), threading.Event()

    class StuckDisk:
        """Its first write, which comes after the instant of the save, waits until the test lets it."""

        def write(self, file: int, data: Any) -> None:
            writing.set()
            assert go_on.wait(PATIENCE)
            SystemDisk().write(file, data)

        def __getattr__(self, name: str) -> Any:
            return getattr(SystemDisk(), name)

    memory = new_memory(20_000, rl.Uniform())
    fill(memory, 0, 5000)
    thread = threading.Thread(target=save_on, args=(memory, tmp_path / "saved", StuckDisk()))
    thread.start()
    assert writing.wait(PATIENCE)
    for number in range(5000, 15_000, 10):
        fill(memory, number, 10)
    assert thread.is_alive()  # all of it went in while the save stood still
    go_on.set()
    thread.join()
    loaded = rl.Memory.load(tmp_path / "saved")
    assert len(loaded) == 10_000
    checkable.check_lanes(loaded, cuts=0)


SAVE_IN_LITTLE = """
import sys
import numpy as np
import relive as rl

def most():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if "VmHWM" in line).split()[1])

schema = rl.Schema(obs=rl.Field((84, 84), "uint8"), action=rl.Field((), "uint8"))
memory = rl.Memory(schema, 100_000, sampler=rl.Prioritized(), seed=0)
rng = np.random.default_rng(0)
for _ in range(20):
    memory.extend(obs=rng.integers(0, 255, (5000, 84, 84), np.uint8), action=np.zeros(5000, np.uint8),
                  reward=np.zeros(5000, np.float32), terminated=np.zeros(5000, bool), truncated=np.zeros(5000, bool))
del _
memory.sample(4)
open("/proc/self/clear_refs", "w").write("5")  # the highest mark starts over
before = most()
memory.save(sys.argv[1])
memory.save(sys.argv[1])
print(most() - before)
"""


def test_saving_needs_little_memory(tmp_path: Path) -> None:
    """700 MB of frames are saved with at most 64 MB more."""
    run = [sys.executable, "-c", SAVE_IN_LITTLE, str(tmp_path / "saved")]
    extra = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert 0 < extra <= 64 << 10


def test_two_saves_at_once_take_turns(tmp_path: Path) -> None:
    memory, other = new_memory(3000), new_memory(3000)
    fill(memory, 0, 2000)
    fill(other, 0, 1000)
    threads = [threading.Thread(target=each.save, args=(tmp_path / "saved",)) for each in (memory, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fingerprint(rl.Memory.load(tmp_path / "saved")) in (fingerprint(memory), fingerprint(other))
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert not any(name.startswith("tmp-") for name in names)
