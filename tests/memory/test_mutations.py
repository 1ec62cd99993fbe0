"""A live shared segment whose bytes somebody changes: refused or read, but no crash and no hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relive as rl
from disks import save_on
from refusals import refused
from relive.memory.snapshot import SystemDisk
from waiting import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")

MUTATE = """
import faulthandler, os, random, sys, tempfile
import numpy as np
import relive as rl

name, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
source = random.Random(seed)
path = f"/dev/shm/relive-{name}"
schema = rl.Schema(obs=rl.Field((3,)), action=rl.Field((), "uint8"))
windows = [rl.Transition(), rl.NStep(3), rl.Sequence(4, burn_in=2), rl.Sequence(4, across=True), rl.Episodes()]
samplers = [rl.Uniform(), rl.Uniform(replace=False), rl.Prioritized(), rl.Shuffled(), rl.Recent()]
step = dict(obs=[1, 2, 3], action=1, reward=0.0, truncated=False)

def make():
    memory = rl.Memory(schema, 120, 2, storage=rl.Shared(name), window=source.choice(windows),
                       sampler=source.choice(samplers), seed=0)
    writer = rl.Writer(name, 0)
    for at in range(80):
        writer.append(**step, terminated=at % 9 == 8)
        memory.append(lanes=1, **step, terminated=at % 7 == 6)
    return memory, writer

def use(memory, writer):
    calls = [
        lambda: memory.sample(8), lambda: memory.sample(60), lambda: len(memory), lambda: memory.ready,
        lambda: memory.episodes, lambda: memory.inspect.overwrites, lambda: writer.append(**step, terminated=False),
        lambda: writer.cut(), lambda: memory.append(lanes=1, **step, terminated=True), lambda: memory.cut(1),
        lambda: memory.forget(0, 75), lambda: list(memory.epoch(16)), lambda: memory.read([0], [70]),
        lambda: rl.Writer(name, source.randrange(2)).close(), lambda: memory.clear(),
    ]
    if source.random() < 0.02:
        calls.append(lambda: memory.save(folder))
    for call in source.sample(calls, 6):
        try:
            call()
        except (rl.errors.ReliveError, OSError):
            refused[0] += 1

refused, folder = [0], tempfile.mkdtemp()
memory, writer = make()
size = os.stat(path).st_size
# Panels, flags, states and records, each from a page of its own on; the states hold a cache line a lane.
states, flags = size - 2 * (1 << 16) - 4096, size - 2 * (1 << 16) - 2 * 4096
for number in range(count):
    faulthandler.dump_traceback_later(3000, exit=True)
    kind = source.choice(["state", "state", "state", "flags", "flags", "byte", "cut"])
    with open(path, "r+b") as file:
        if kind == "cut":
            os.truncate(path, source.choice([0, 4096, size // 2, size - 4096]))
        elif kind == "state":
            at = states + 64 * source.randrange(2) + 8 * source.randrange(4)
            file.seek(at)
            old = int.from_bytes(file.read(8), "little", signed=True)
            near = old + source.randrange(-200, 200)
            new = source.choice([0, -1, 1 << 61, (1 << 60) - 1, -(1 << 63), (1 << 63) - 1, near])
            file.seek(at)
            file.write((new % (1 << 64)).to_bytes(8, "little"))
        elif kind == "flags":
            file.seek(flags)
            file.write(bytes(source.choice([source.randrange(256), 4, 8, 1]) for _ in range(120)))
        else:
            file.seek(source.randrange(size))
            file.write(bytes([source.randrange(256)]))
    use(memory, writer)
    if source.random() < (1.0 if kind == "cut" else 0.3):
        for user in (writer, memory):
            try:
                user.close()
            except rl.errors.ReliveError:
                pass
        if os.path.exists(path):
            os.unlink(path)
        memory, writer = make()
print(refused[0])
"""


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"test-{uuid.uuid4().hex}"
    yield chosen
    Path(f"/dev/shm/relive-{chosen}").unlink(missing_ok=True)


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_live_segment_is_changed(name: str, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MUTATE, name, str(count), str(count)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > count / 10


def test_a_damaged_lane_is_named(name: str) -> None:
    schema = rl.Schema(obs=rl.Field((3,)))
    step = {"obs": [1, 2, 3], "reward": 0.0, "terminated": False, "truncated": False}
    with rl.Memory(schema, 120, 2, storage=rl.Shared(name)) as memory:
        for _ in range(10):
            memory.append(lanes=1, **step)
        path = Path(f"/dev/shm/relive-{name}")
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size - 2 * (1 << 16) - 4096 + 64)
            file.write((1 << 61).to_bytes(8, "little"))
        for look in (lambda: memory.sample(2), lambda: len(memory), lambda: memory.ready, memory.clear):
            with refused(rl.errors.StorageError, "shared memory", got="a damaged lane 1"):
                look()


@pytest.mark.parametrize("kind", ["mapped", "shared"])
def test_a_file_that_is_cut_short_while_it_is_used(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows" if kind == "mapped" else Path(f"/dev/shm/relive-{name}")
    storage = rl.Mapped(path) if kind == "mapped" else rl.Shared(name)
    memory = rl.Memory(rl.Schema(obs=rl.Field((500,))), 1000, storage=storage, seed=0)
    zeros = np.zeros(800)
    block = {"reward": zeros, "terminated": zeros > 0, "truncated": zeros > 0}
    memory.extend(obs=np.ones((800, 500)), **block)
    os.truncate(path, 8192)
    for use in (
        lambda: memory.sample(100),
        lambda: memory.extend(obs=np.ones((800, 500)), **block),
        lambda: memory.save(tmp_path / "saved"),
        lambda: len(memory),
    ):
        with refused(rl.errors.StorageError, "memory", got="one that was cut short, or cannot be read"):
            use()
    with pytest.raises(rl.errors.StorageError) if kind == "mapped" else pytest.MonkeyPatch.context():
        memory.close()


TAKEN_OVER = """
import faulthandler, mmap, os, sys
import numpy as np
import relive as rl

def mapped(name):
    path = os.path.join(sys.argv[1], name)
    memory = rl.Memory(rl.Schema(obs=rl.Field((500,))), 1000, storage=rl.Mapped(path), seed=0)
    zeros = np.zeros(800)
    memory.extend(obs=np.ones((800, 500)), reward=zeros, terminated=zeros > 0, truncated=zeros > 0)
    return memory, path

first = mapped("first")
for again in range(3):
    faulthandler.disable()
    faulthandler.enable()  # handles the signal before us from now on
    others = [mapped(f"other_{again}")]
for memory, path in (first, *others):
    os.truncate(path, 8192)
    try:
        memory.sample(100)
    except rl.errors.StorageError as error:
        print("refused", flush=True)
with open(os.path.join(sys.argv[1], "foreign"), "w+b") as file:
    file.truncate(1 << 20)
    view = mmap.mmap(file.fileno(), 1 << 20)
    file.truncate(4096)
    print(view[1 << 19])
"""


def test_a_file_that_is_cut_short_though_others_took_the_signal_over(tmp_path: Path) -> None:
    """And a fault of somebody else's ends the process, as it would have without us."""
    command = [sys.executable, "-c", TAKEN_OVER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "refused\nrefused\n"
    assert done.returncode == -signal.SIGBUS
    assert "Bus error" in done.stderr


def test_whoever_waits_for_a_save_learns_that_the_file_is_gone(tmp_path: Path) -> None:
    """A step waits for rows that are being saved when the file is cut short: it is not left waiting."""
    path = tmp_path / "rows"
    memory = rl.Memory(rl.Schema(obs=rl.Field((500,))), 1000, storage=rl.Mapped(path), seed=0)
    zeros = np.zeros(900)
    block = {"obs": np.ones((900, 500)), "reward": zeros, "terminated": zeros > 0, "truncated": zeros > 0}
    memory.extend(**block)
    found: list[BaseException] = []

    def write() -> None:
        try:
            memory.extend(**block)
        except rl.errors.StorageError as error:
            found.append(error)

    writer = threading.Thread(target=write, daemon=True)

    class Cutting:
        files = 0

        def __getattr__(self, call: str) -> Any:
            return getattr(SystemDisk(), call)

        def create(self, file: Path) -> int:
            self.files += 1
            if self.files == 2:  # the first segment, after the instant of the save
                writer.start()
                time.sleep(0.3)
                os.truncate(path, 8192)
            return SystemDisk().create(file)

    with refused(rl.errors.StorageError, "memory"):
        save_on(memory, tmp_path / "saved", Cutting())
    writer.join()
    assert found
    with pytest.raises(rl.errors.StorageError):
        memory.close()


def test_segments_of_others_are_refused(name: str, tmp_path: Path) -> None:
    path = Path(f"/dev/shm/relive-{name}")
    schema = rl.Schema(obs=rl.Field((3,)))
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    path.symlink_to(target)
    for use in (lambda: rl.Memory(schema, 40, storage=rl.Shared(name)), lambda: rl.Memory.open(rl.Shared(name))):
        with refused(rl.errors.StorageError, "shared memory 'test-*'", got="a link"):
            use()
    assert not rl.Shared(name).exists()
    assert name not in rl.Shared.sweep()
    assert target.read_bytes() == b"precious"
    path.unlink()
    with rl.Memory(schema, 40, storage=rl.Shared(name)):
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o666)
        with refused(rl.errors.StorageError, "shared memory 'test-*'", got="one that others may use (mode 666)"):
            rl.Writer(name)
        path.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
            with refused(rl.errors.StorageError, "shared memory 'test-*'", got="one of user 65534"):
                rl.Memory.open(rl.Shared(name))
            os.chown(path, 0, 0)
