"""Memory-mapped files: opened again, after crashes of the program and of the machine, and refused."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkable
import relive as rl
from refusals import refused
from test_crash import fill, new_memory

PAGE = 4096
SESSION = 4096


def other_boot(data: bytearray) -> None:
    """Make a file look as if the machine had been started anew since."""
    session = json.dumps({"clean": False, "boot": "another"}).encode()
    data[SESSION : SESSION + 512] = session.ljust(512, b"\0")


def test_rows_are_there_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "rows"
    with new_memory(500, storage=rl.Mapped(path)) as memory:
        fill(memory, 0, 700)
        before = checkable.check_lanes(memory, cuts=0)
    with rl.Memory.open(rl.Mapped(path), sampler=rl.Prioritized(), seed=0) as memory:
        assert checkable.check_lanes(memory, cuts=0) == before
        memory.sample(16)
        fill(memory, 700, 100)
    with rl.Memory.open(rl.Mapped(path)) as memory:
        assert checkable.newest(memory) == [798, 798]


@pytest.mark.parametrize("crash", [False, True])
def test_open_episodes_go_on(tmp_path: Path, crash: bool) -> None:
    """The newest step too, whose outcome is not known yet: it is the first of what is appended next."""
    path, other = tmp_path / "rows", tmp_path / "other"
    memory = new_memory(100, storage=rl.Mapped(path))
    fill(memory, 0, 10)
    if crash:
        other.write_bytes(path.read_bytes())
    memory.close()
    with rl.Memory.open(rl.Mapped(other if crash else path)) as memory:
        assert memory.episodes.length.tolist() == [10, 10]
        assert not memory.episodes.truncated.any()
        fill(memory, 10, 20)
        assert memory.episodes.length.tolist() == [30, 30]
        assert checkable.check_lanes(memory, cuts=0) == [list(range(29)), list(range(29))]
        memory.cut()
        fill(memory, 60, 3)
        assert memory.episodes.length.tolist() == [29, 3, 29, 3]


def test_open_episodes_are_cut_after_a_power_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    memory = new_memory(100, storage=rl.Mapped(path))
    fill(memory, 0, 10)
    memory.flush()
    data = bytearray(path.read_bytes())
    memory.close()
    other_boot(data)
    path.write_bytes(data)
    with rl.Memory.open(rl.Mapped(path)) as memory:
        assert memory.episodes.truncated.tolist() == [True, True]
        assert memory.episodes.length.tolist() == [9, 9]


def test_a_new_memory_does_not_go_on_with_old_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with new_memory(100, storage=rl.Mapped(path)) as memory:
        fill(memory, 0, 10)
        memory.save(tmp_path / "saved")
    before = path.read_bytes()
    for make in (
        lambda: new_memory(100, storage=rl.Mapped(path)),
        lambda: new_memory(200, storage=rl.Mapped(path)),
        lambda: rl.Memory.load(tmp_path / "saved", storage=rl.Mapped(path)),
    ):
        with refused(rl.errors.StorageError, "rows", got="one that holds rows already"):
            make()
    assert path.read_bytes() == before


def test_a_memory_that_is_not_closed_is_finished_all_the_same(tmp_path: Path) -> None:
    """By the garbage collector, and by the end of the program."""
    path = tmp_path / "rows"
    memory = new_memory(100, storage=rl.Mapped(path))
    fill(memory, 0, 10)
    del memory
    assert b'"clean": true' in path.read_bytes()[SESSION : SESSION + 512]
    code = f"import relive as rl; memory = rl.Memory.open(rl.Mapped({str(path)!r})); memory.cut()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert b'"clean": true' in path.read_bytes()[SESSION : SESSION + 512]


def test_more_than_is_touched_takes_no_ram(tmp_path: Path) -> None:
    """2 GiB of file cost only the RAM of what is read and written."""
    code = (
        "import sys, numpy as np, relive as rl\n"
        "schema = rl.Schema(obs=rl.Field((84, 84), 'uint8'), action=rl.Field((), 'uint8'))\n"
        "memory = rl.Memory(schema, 300_000, storage=rl.Mapped(sys.argv[1]), seed=0)\n"
        "memory.extend(obs=np.ones((100, 84, 84), np.uint8), action=np.zeros(100, np.uint8),\n"
        "  reward=np.zeros(100), terminated=np.zeros(100, bool), truncated=np.zeros(100, bool))\n"
        "assert memory.sample(8).obs.all()\n"
        "print(next(line for line in open('/proc/self/status') if 'VmHWM' in line).split()[1])\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "rows")], check=True, capture_output=True, text=True
    )
    assert int(out.stdout) < 300 << 10


class Pages:
    """A file whose pages reach the disk when they are synced, or at any other time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.versions: list[bytes] = []  # since the last flush

    def flushed(self) -> None:
        self.versions = [self.path.read_bytes()]

    def changed(self) -> None:
        self.versions.append(self.path.read_bytes())

    def after_power_cut(self, source: random.Random, always: range) -> bytearray:
        """Every page as it was at some time since the last flush; those in `always` as they are."""
        data = bytearray(self.versions[-1])
        for at in range(0, len(data), PAGE):
            if at not in always:
                data[at : at + PAGE] = source.choice(self.versions)[at : at + PAGE]
        other_boot(data)
        return data


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 60))])
def test_a_power_cut_leaves_what_was_flushed(tmp_path: Path, seed: int) -> None:
    """Pages newer than the last flush are mixed with those it wrote: no wrong row, and none lost but as promised."""
    source = random.Random(seed)
    span = 400
    path, image = tmp_path / "rows", tmp_path / "image"
    memory = new_memory(span, rl.Uniform(), storage=rl.Mapped(path))
    pages = Pages(path)
    fill(memory, 0, 30)
    memory.flush()
    pages.flushed()
    flushed, number = 30, 30
    size = path.stat().st_size
    records = range(size - 2 * (1 << 16), size, PAGE)  # the core syncs them itself, when they change
    for _ in range(12):
        for _ in range(source.randrange(4)):
            count = source.choice([1, 7, 40, 120])
            fill(memory, number, count)
            number += count
            if source.random() < 0.3:
                memory.cut(source.choice([0, 1, None]))
            pages.changed()
        for _ in range(4):
            image.write_bytes(pages.after_power_cut(source, records))
            with rl.Memory.open(rl.Mapped(image)) as left:
                lanes = checkable.check_lanes(left)
                for numbers in lanes:
                    # What was flushed, less what was overwritten since or may have been: closing rows count too.
                    least = min(flushed, span * 9 // 10) - (number - flushed) * 38 // 37 - span // 16 - 12
                    if least > 0:
                        assert len(numbers) >= least * 36 // 37 - 3
                        assert numbers[-1] >= flushed - 4
            image.unlink()
        if source.random() < 0.6:
            memory.flush()
            pages.flushed()
            flushed = number
    memory.close()


def test_a_half_written_step_does_not_count(tmp_path: Path) -> None:
    """A writer died between claiming rows and publishing them: what it was overwriting is gone, the rest is not."""
    path = tmp_path / "rows"
    with new_memory(50, rl.Uniform(), storage=rl.Mapped(path)) as memory:
        fill(memory, 0, 60)
        before = checkable.check_lanes(memory)
        data = bytearray(path.read_bytes())
    # Lane states lie before the two records, in a page of their own: head, claim, floor, revision.
    at = len(data) - 2 * (1 << 16) - PAGE
    head, claim = np.frombuffer(data, np.int64, 2, at)
    assert head == claim
    data[at + 8 : at + 16] = int(head + 5).to_bytes(8, "little")
    data[SESSION : SESSION + 512] = data[SESSION : SESSION + 512].replace(b"true", b"false")
    path.write_bytes(data)
    with rl.Memory.open(rl.Mapped(path)) as memory:
        after = checkable.check_lanes(memory)
    assert after[1][-1] == before[1][-1]
    assert after[0] == before[0][-len(after[0]) :]
    assert len(before[0]) - 6 <= len(after[0]) <= len(before[0]) - 4


@pytest.mark.parametrize("done", ["step", "closing"])
def test_a_half_done_cut_is_finished(tmp_path: Path, done: str) -> None:
    """A cut changes the flags of two rows; a writer may die between them."""
    path = tmp_path / "rows"
    with new_memory(50, rl.Uniform(), storage=rl.Mapped(path)) as memory:
        fill(memory, 0, 10)
        data = bytearray(path.read_bytes())
    data[SESSION : SESSION + 512] = data[SESSION : SESSION + 512].replace(b"true", b"false")
    flags = len(data) - 2 * (1 << 16) - 2 * PAGE  # before the lane states
    assert list(data[flags : flags + 11]) == [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    if done == "step":
        data[flags + 8] |= 2
    else:
        data[flags + 9] = 4
    path.write_bytes(data)
    with rl.Memory.open(rl.Mapped(path)) as memory:
        assert memory.episodes.length.tolist() == [9, 10]
        assert memory.episodes.truncated.tolist() == [True, False]
        checkable.check_lanes(memory)
        fill(memory, 10, 5)
        checkable.check_lanes(memory, cuts=1)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    missing = tmp_path / "missing"
    with refused(rl.errors.StorageError, "missing", got="No such file or directory"):
        rl.Memory.open(rl.Mapped(missing))
    memory = new_memory(100, storage=rl.Mapped(path))
    with refused(rl.errors.StorageError, "rows", got="a file that is open already"):
        new_memory(100, storage=rl.Mapped(path))
    memory.close()
    with refused(rl.errors.StorageError, "memory", got="one that was closed"):
        memory.sample(3)
    with refused(rl.errors.StorageError, "memory", got="one that was closed"):
        fill(memory, 0, 1)
    memory.close()
    data = bytearray(path.read_bytes())
    for change, got in {(0, b"X"): "another kind of file", (16, b"\2"): "2", (8200, b"?"): "a damaged one"}.items():
        other = tmp_path / "other"
        other.write_bytes(data[: change[0]] + change[1] + data[change[0] + 1 :])
        with refused(rl.errors.StorageError, "other", got=got):
            rl.Memory.open(rl.Mapped(other))
    other.write_bytes(data[:-PAGE])
    with refused(rl.errors.StorageError, "other"):
        rl.Memory.open(rl.Mapped(other))
    with refused(rl.errors.StorageError, "*", got="Is a directory"):
        new_memory(100, storage=rl.Mapped(tmp_path))
    with refused(rl.errors.StorageError, "large"):
        rl.Memory(rl.Schema(obs=rl.Field((1 << 20,))), 1 << 20, storage=rl.Mapped(tmp_path / "large"))
    with refused(rl.errors.OptionError, "storage"):
        rl.Memory.open(rl.Ram())
    with refused(rl.errors.OptionError, "storage"):
        rl.Memory(checkable.SCHEMA, 100, storage=rl.Ram)  # type: ignore[arg-type]


@pytest.mark.parametrize("head", [-5, 1 << 61])
def test_damaged_lanes_are_refused(tmp_path: Path, head: int) -> None:
    path = tmp_path / "rows"
    with new_memory(50, storage=rl.Mapped(path)) as memory:
        fill(memory, 0, 10)
    data = bytearray(path.read_bytes())
    at = len(data) - 2 * (1 << 16) - PAGE + 64
    data[at : at + 8] = head.to_bytes(8, "little", signed=True)
    path.write_bytes(data)
    with refused(rl.errors.StorageError, "rows", got="a damaged lane 1"):
        rl.Memory.open(rl.Mapped(path))


def test_a_file_whose_making_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    for content in (b"", bytes(100), bytes(1 << 20)):
        path.write_bytes(content)
        with new_memory(100, storage=rl.Mapped(path)) as memory:
            assert len(memory) == 0
            fill(memory, 0, 10)
        path.unlink()


def test_a_forked_child_may_not_write(tmp_path: Path) -> None:
    memory = new_memory(100, storage=rl.Mapped(tmp_path / "rows"))
    child = os.fork()
    if child == 0:
        refused = 0
        for change in (lambda: fill(memory, 0, 1), memory.clear, memory.cut):
            try:
                change()
            except rl.errors.StorageError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    memory.close()


def any_step() -> dict[str, Any]:
    return {key: value[0] for key, value in checkable.block(0, 0, 1).items()}


def test_flush_and_close_cost_nothing_in_ram() -> None:
    with rl.Memory(checkable.SCHEMA, 100, seed=0) as memory:
        memory.append(**any_step())
        memory.flush()
        memory.close()
        assert len(memory) == 1
