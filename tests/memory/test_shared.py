"""Shared memory: several processes, one of them killed, and what is left of it."""

from __future__ import annotations

import itertools
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

import checkable
import relive as rl
from disks import save_on
from playing import STEP, small
from refusals import refused
from relive.memory.snapshot import SystemDisk
from waiting import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"test-{uuid.uuid4().hex}"
    yield chosen
    Path(f"/dev/shm/relive-{chosen}").unlink(missing_ok=True)


def there(name: str) -> bool:
    return Path(f"/dev/shm/relive-{name}").exists()


def run_actors(name: str, memory: rl.Memory, rows: int, sizes: tuple[int, ...]) -> int:
    """Actors fill the lanes while this process samples; the last is killed half way and its lane taken over.

    Returns how many batches were checked meanwhile.
    """
    actors = [checkable.start_actor(name, lane, 0, rows, size) for lane, size in enumerate(sizes)]
    for actor in actors:
        assert actor.stdout is not None
        actor.stdout.readline()
    victim = len(sizes) - 1
    batches = 0
    killed = False
    while any(actor.poll() is None for actor in actors):
        if memory.ready:
            checkable.check(memory.sample(128))
            batches += 1
        if not killed and newest(memory, victim) > rows // 2:
            actors[victim].send_signal(signal.SIGKILL)
            actors[victim].communicate()
            killed = True
            assert len(memory) > 0
            checkable.check(memory.sample(64))
            first = newest(memory, victim) + 1
            actors[victim] = checkable.start_actor(name, victim, first, rows - first, sizes[victim])
    assert killed
    assert all(actor.returncode == 0 for actor in actors)
    for actor in actors:
        actor.communicate()
    return batches


def newest(memory: rl.Memory, lane: int) -> int:
    """The number of the newest row of a lane that can be read, while others are appended."""
    episodes = memory.episodes
    ends = (episodes.start + episodes.length)[episodes.lane == lane]
    for serial in range(int(ends.max(initial=0)), -1, -1):
        try:
            return int(memory.read([lane], [serial]).number[0])
        except rl.errors.StaleRows:
            continue
    return -1


@pytest.mark.parametrize("sampler", [rl.Uniform(), rl.Prioritized()])
def test_actors_write_while_the_learner_samples(name: str, sampler: rl.Sampler) -> None:
    """A ring that is overwritten again and again: no row is ever torn, and at the end none is missing."""
    with rl.Memory(checkable.SCHEMA, 4 * 2000, 4, storage=rl.Shared(name), sampler=sampler, seed=0) as memory:
        batches = run_actors(name, memory, 20_000, (1, 5, 400, 3))
        assert batches > 10
        for numbers in checkable.check_lanes(memory, cuts=1):
            assert numbers[-1] == 19_998
            assert len(numbers) > 1800
    assert not there(name)


@pytest.mark.parametrize(
    "sampler",
    [rl.Uniform(replace=False), rl.Recent(), rl.Shuffled(), rl.Prioritized()],
    ids=lambda part: part.spec()[0],
)
def test_a_small_ring_that_is_overwritten_all_the_time(name: str, sampler: rl.Sampler, tmp_path: Path) -> None:
    """Flags change while samplers look at them: they neither hang nor crash, and snapshots taken meanwhile load."""
    with rl.Memory(checkable.SCHEMA, 4 * 90, 4, storage=rl.Shared(name), sampler=sampler, seed=0) as memory:
        actors = [checkable.start_actor(name, lane, 0, 20_000, size) for lane, size in enumerate((1, 3, 20, 44))]
        sampled = saved = 0
        while any(actor.poll() is None for actor in actors):
            try:
                # Nearly all there are: then samplers look at every flag.
                checkable.check(memory.sample(max(1, memory.ready - 2)))
                checkable.check(memory.sample(20))
                sampled += 1
            except rl.errors.NotEnoughRows:
                pass
            if sampled % 20 == 19:
                memory.save(tmp_path / "saved")
                checkable.check_lanes(rl.Memory.load(tmp_path / "saved"))
                saved += 1
                sampled += 1
        for actor in actors:
            actor.communicate()
        assert all(actor.returncode == 0 for actor in actors)
        assert sampled > 20
        assert saved > 0
        assert memory.ready > 4 * 80  # nothing is left alone once the writers are gone
        checkable.check_lanes(memory)


CHANGING = """
import sys, threading, time
import numpy as np
import relive as rl

def steps(ends):
    flags = np.zeros(len(ends), bool)
    return dict(obs=np.zeros((len(ends), 2)), reward=np.zeros(len(ends)), terminated=ends, truncated=flags)

def write():
    with rl.Writer(sys.argv[1], 0) as writer:
        long, short = steps(np.arange(20_000) == 19_999), steps(np.ones(20_000, bool))
        while time.monotonic() < until:
            for block in [long] * 11 + [short] * 6:
                writer.extend(**block)

until = time.monotonic() + 1
sampler = {"recent": rl.Recent(), "distinct": rl.Uniform(replace=False)}[sys.argv[2]]
with rl.Memory(rl.Schema(obs=rl.Field((2,))), 200_000, 1, storage=rl.Shared(sys.argv[1]), sampler=sampler) as memory:
    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        try:
            memory.sample(max(1, memory.ready))
        except rl.errors.NotEnoughRows:
            pass
"""


@pytest.mark.parametrize("sampler", ["recent", "distinct"])
def test_flags_that_change_while_all_are_looked_at(name: str, sampler: str) -> None:
    """Rows are counted by flags that then become others: no sampler waits for rows that are not there any more."""
    subprocess.run([sys.executable, "-c", CHANGING, name, sampler], check=True, timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1_200_000, 40_000])
def test_a_million_rows_from_four_actors(name: str, capacity: int) -> None:
    """Either all rows are kept, and then all are there; or most are overwritten while the learner reads."""
    with rl.Memory(checkable.SCHEMA, capacity, 4, storage=rl.Shared(name), seed=0) as memory:
        batches = run_actors(name, memory, 250_000, (1, 7, 400, 3))
        assert batches > 100
        for numbers in checkable.check_lanes(memory, cuts=1):
            assert numbers[-1] == 249_998
            assert len(numbers) > capacity // 4 * 9 // 10 or numbers[0] == 0
    assert not there(name)


def test_the_last_user_removes_the_segment(name: str) -> None:
    memory = small(name)
    writer = rl.Writer(name, 0)
    memory.close()
    assert there(name)
    writer.append(**STEP)
    again = rl.Memory.open(rl.Shared(name))
    assert len(again) == 1
    writer.close()
    assert there(name)
    del again
    assert not there(name)


def test_users_that_leave_together_leave_nothing_behind(name: str) -> None:
    for _ in range(100):
        memory, writer = small(name), rl.Writer(name, 0)
        threads = [threading.Thread(target=user.close) for user in (memory, writer)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not there(name)


class Acting:
    """A disk on which a writer acts when the second file is made: the first segment, after the instant of the save."""

    def __init__(self, writer: rl.Writer, *, append: bool) -> None:
        self.writer, self.append, self.files = writer, append, 0

    def __getattr__(self, call: str) -> Any:
        return getattr(SystemDisk(), call)

    def create(self, path: Path) -> int:
        self.files += 1
        if self.files == 2:
            if self.append:
                self.writer.append(**{**STEP, "obs": np.full(3, 999, np.float32)})
            self.writer.cut()
        return SystemDisk().create(path)


def test_rows_that_change_while_they_are_saved(name: str, tmp_path: Path) -> None:
    """A writer cuts and appends between the instant of a save and the copying: the snapshot loads, without them."""
    for number, (tail, append) in enumerate(itertools.product([[], [True], [True, False]], [False, True])):
        with small(name) as memory, rl.Writer(name, 0) as writer:
            for step, terminated in enumerate([step % 7 == 6 for step in range(30)] + tail):
                writer.append(**{**STEP, "obs": np.full(3, step, np.float32), "terminated": terminated})
            save_on(memory, tmp_path / str(number), Acting(writer, append=append))
            loaded = rl.Memory.load(tmp_path / str(number))
            assert len(loaded) > 10
            for batch in loaded.epoch(100):
                assert (batch.obs < 900).all()
                assert ((batch.next_obs == batch.obs + 1) | batch.terminated[:, None]).all()


def test_rows_that_are_overwritten_after_they_were_saved(name: str, tmp_path: Path) -> None:
    """A save leaves out newest rows that a cut changed, and a last step with them; by then others lie in its place."""
    with small(name) as memory, rl.Writer(name, 0) as writer:

        class Overwriting:
            def __getattr__(self, call: str) -> Any:
                return getattr(SystemDisk(), call)

            def hurry(self, file: int) -> None:
                writer.cut()  # takes the lone row back
                for _ in range(19):
                    writer.append(**STEP)

        for step in range(10):
            writer.append(**{**STEP, "terminated": step == 8})  # an ended episode, and the first step of another
        save_on(memory, tmp_path / "saved", Overwriting())
        loaded = rl.Memory.load(tmp_path / "saved")
        assert len(loaded) == 8
        assert not loaded.episodes.terminated.any()


def test_a_new_memory_does_not_go_on_with_old_rows(name: str) -> None:
    """Whether or not the segment is used, and whatever its layout: it stays as it is."""
    makers = (lambda: small(name), lambda: rl.Memory(rl.Schema(obs=rl.Field((4,))), 40, 2, storage=rl.Shared(name)))
    with small(name) as memory:
        memory.append(lanes=0, **STEP)
        for make in makers:
            with refused(rl.errors.StorageError, "shared memory 'test-*'", got="one that is there already"):
                make()
        assert len(memory) == 1
    subprocess.run([sys.executable, "-c", CRASH.format(""), name], check=False)
    for make in makers:
        with refused(rl.errors.StorageError, "shared memory 'test-*'", got="one that is there already"):
            make()
    with rl.Memory.open(rl.Shared(name)) as memory:
        assert len(memory) == 4


CRASH = """
import os, sys
import relive as rl
schema = rl.Schema(obs=rl.Field((3,)), action=rl.Field((), "uint8"))
memory = rl.Memory(schema, 40, 2, storage=rl.Shared(sys.argv[1]))
for _ in range(4):
    memory.append(lanes=0, obs=[1, 2, 3], action=1, reward=0.0, terminated=False, truncated=False)
{}
os.kill(os.getpid(), 9)
"""


def test_a_killed_owner_leaves_its_rows(name: str) -> None:
    subprocess.run([sys.executable, "-c", CRASH.format(""), name], check=False)
    assert there(name)
    with rl.Memory.open(rl.Shared(name)) as memory:
        assert len(memory) == 4
        memory.append(lanes=0, **STEP)
        assert memory.episodes.length.tolist() == [3, 1]
    assert not there(name)


def test_a_killed_owners_rows_can_be_opened(name: str) -> None:
    """Looking at the layout is no use that ends, and so does not remove the segment."""
    subprocess.run([sys.executable, "-c", CRASH.format(""), name], check=False)
    with rl.Memory.open(rl.Shared(name)) as memory:
        assert len(memory) == 4
    assert not there(name)


def test_a_segment_that_nobody_uses_can_be_swept(name: str) -> None:
    subprocess.run([sys.executable, "-c", CRASH.format(""), name], check=False)
    used = f"{name}-used"
    with small(used):
        out = subprocess.run([sys.executable, "-m", "relive.sweep"], check=True, capture_output=True, text=True).stdout
        assert name in out
        assert used not in out
        assert there(used)
    assert not there(name)


def test_a_forked_child_does_not_keep_the_segment(name: str) -> None:
    """Locks of the parent end with the parent, and a child that writes attaches itself."""
    memory = small(name)
    memory.append(lanes=0, **STEP)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"wrote"
        try:
            memory.append(lanes=0, **STEP)
        except rl.errors.StorageError as error:
            answer = str(error).encode()
        os.write(write, answer)
        os.close(write)
        time.sleep(600)
        os._exit(0)
    os.close(write)
    answer = os.read(read, 1000).decode()
    os.close(read)
    try:
        assert answer == (
            "memory must be opened in the process that writes, got one from before a fork. Open it there again."
        )
        with pytest.raises(rl.errors.StorageError):
            rl.Writer(name, 0)
        memory.close()
        assert not there(name)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_too_little_room_is_an_error_at_once(name: str) -> None:
    with refused(rl.errors.StorageError, "shared memory 'test-*'"):
        rl.Memory(rl.Schema(obs=rl.Field((1 << 20,))), 1 << 20, storage=rl.Shared(name))
    assert not there(name)


def test_threads_of_the_owner_do_not_mind_each_other(name: str) -> None:
    """Sampling catches up with other processes under a lock of its own."""
    with small(name) as memory, rl.Writer(name, 1) as writer:
        for _ in range(2):
            memory.append(lanes=0, **STEP)
        with memory.prefetch(8, ahead=2) as batches:
            for _ in range(200):
                writer.append(**STEP)
                memory.append(lanes=0, **STEP)
                assert next(batches).obs.shape == (8, 3)
