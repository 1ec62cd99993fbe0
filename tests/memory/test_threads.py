"""Threads, savers and forks on one memory, with rows that say who they are."""

from __future__ import annotations

import faulthandler
import itertools
import os
import threading
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkable
import relive as rl
from disks import save_on
from refusals import refused
from relive.memory.snapshot import SystemDisk, saving
from waiting import PATIENCE, until

WINDOWS = [
    rl.Transition(),
    rl.NStep(3),
    rl.Sequence(5, burn_in=3),
    rl.Sequence(6, burn_in=2, overlap=2, across=True),
    rl.Episodes(),
]


SPAN = 3000


@pytest.fixture
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[rl.Storage]:
    name = f"test-{uuid.uuid4().hex}"
    kinds: dict[str, Any] = {"ram": rl.Ram(), "mapped": rl.Mapped(tmp_path / "rows"), "shared": rl.Shared(name)}
    yield kinds[request.param]
    Path(f"/dev/shm/relive-{name}").unlink(missing_ok=True)


class Crowd:
    """Eight threads that append, extend, sample, update_priorities, save, forget and cut until the time is over."""

    def __init__(self, memory: rl.Memory, storage: rl.Storage, folder: Path) -> None:
        self.memory, self.storage, self.folder = memory, storage, folder
        self.errors: list[str] = []
        self.stop = threading.Event()
        self.counts = dict.fromkeys(("rows", "batches", "saves", "forks"), 0)
        self.single = self.long = 0

    def run(self, seconds: float, *more: Callable[[], None], least: dict[str, int]) -> None:
        """For some seconds, and until enough was done of each."""
        work = [
            self.append,
            self.extend,
            self.sample,
            self.sample,
            self.update_priorities,
            self.save,
            self.forget,
            self.cut,
            *more,
        ]
        threads = [threading.Thread(target=self.loop, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        self.stop.wait(seconds)
        until(lambda: self.stop.is_set() or all(self.counts[what] > count for what, count in least.items()))
        self.stop.set()
        for thread in threads:
            thread.join()
        assert not self.errors, "\n".join(self.errors[:3])

    def loop(self, work: Callable[[], None]) -> None:
        while not self.stop.is_set():
            try:
                work()
            except rl.errors.NotEnoughRows:
                pass
            except BaseException:
                self.errors.append(traceback.format_exc())
                self.stop.set()

    def append(self) -> None:
        steps = checkable.block(0, self.single, 50)
        for at in range(50):
            self.memory.append(lanes=0, **{key: value[at] for key, value in steps.items()})
        self.single += 50
        self.counts["rows"] += 50

    def extend(self) -> None:
        """Blocks longer than half a lane, and than a lane."""
        for count in (SPAN * 9 // 10, 70, SPAN * 5 // 4):
            self.memory.extend(lanes=1, **checkable.block(1, self.long, count))
            self.long += count
            self.counts["rows"] += count

    def sample(self) -> None:
        checkable.check_batch(self.memory.sample(64), self.memory.window)
        self.counts["batches"] += 1

    def update_priorities(self) -> None:
        batch = self.memory.sample(32)
        checkable.check_batch(batch, self.memory.window)
        self.memory.update_priorities(batch, np.random.default_rng().random(32))
        assert self.memory.ready >= 0
        assert len(self.memory) <= self.memory.capacity

    def save(self) -> None:
        journal = None if isinstance(self.storage, rl.Shared) else (None, "written")[self.counts["saves"] % 2]
        self.memory.save(self.folder, journal=journal)
        self.counts["saves"] += 1
        if self.counts["saves"] % 5 == 1:
            loaded = rl.Memory.load(self.folder, window=rl.Transition())
            checkable.check_lanes(loaded)

    def forget(self) -> None:
        time.sleep(0.02)
        episodes = self.memory.episodes
        for lane in range(2):
            starts = episodes.start[episodes.lane == lane]
            if len(starts) > 60:
                self.memory.forget(lane, int(starts[3]))

    def cut(self) -> None:
        time.sleep(0.01)
        self.memory.cut([0, 1])


def crowd(storage: rl.Storage, window: rl.Window, folder: Path) -> Crowd:
    memory = rl.Memory(checkable.SCHEMA, 2 * SPAN, 2, storage=storage, window=window, sampler=rl.Prioritized(), seed=0)
    return Crowd(memory, storage, folder)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("storage", ["ram", "mapped", "shared"], indirect=True)
def test_eight_threads(storage: rl.Storage, window: rl.Window, tmp_path: Path) -> None:
    group = crowd(storage, window, tmp_path / "saved")
    group.run(0.5, least={"batches": 3, "saves": 0})
    group.memory.close()


@pytest.mark.slow
@pytest.mark.parametrize("forks", [False, True])
@pytest.mark.parametrize("storage", ["ram", "mapped", "shared"], indirect=True)
def test_eight_threads_for_a_minute(storage: rl.Storage, forks: bool, tmp_path: Path) -> None:
    """Every window for twelve seconds."""
    for number, window in enumerate(WINDOWS):
        group = crowd(again(storage, number), window, tmp_path / f"saved-{number}")
        least = {"batches": 100, "saves": 10, **({"forks": 10} if forks else {})}
        group.run(12, *([lambda group=group: fork(group)] if forks else []), least=least)
        print(storage, window, group.counts)
        group.memory.close()


def again(storage: Any, number: int) -> Any:
    """Another file or segment of the same kind."""
    if isinstance(storage, rl.Mapped):
        return rl.Mapped(f"{storage.path}-{number}")
    return storage


def fork(group: Crowd) -> None:
    """A child that does everything with the memory as it was at that moment, and nothing of it hangs."""
    if (
        in_a_child(lambda: use_as_a_child(group.memory, group.storage, group.folder.with_name(f"child-{os.getpid()}")))
        != 0
    ):
        raise AssertionError("the child failed or hung")
    group.counts["forks"] += 1


def use_as_a_child(memory: rl.Memory, storage: rl.Storage, folder: Path) -> None:
    own = isinstance(storage, rl.Ram)
    assert memory.ready >= 0
    assert 0 <= len(memory) <= memory.capacity
    if memory.ready:
        batch = memory.sample(32)
        checkable.check_batch(batch, memory.window)
        memory.update_priorities(batch, np.ones(32))
    try:
        memory.cut()  # the episode in it goes on in the parent
        memory.extend(lanes=1, **checkable.block(1, 0, 10))
        wrote = True
    except rl.errors.StorageError as error:
        assert "from before a fork" in str(error)
        wrote = False
    assert wrote == own
    if own:
        memory.save(folder, journal="written")
        memory.forget(0, 5)
        for batch in rl.Memory.load(folder, window=rl.NStep(2)).epoch(4096):
            checkable.check_batch(batch, rl.NStep(2))


@pytest.mark.parametrize("storage", ["ram", "mapped", "shared"], indirect=True)
def test_forks_while_threads_are_inside(storage: rl.Storage, tmp_path: Path) -> None:
    group = crowd(storage, rl.Transition(), tmp_path / "saved")
    group.run(1.0, lambda: fork(group), least={"forks": 3})
    group.memory.close()


def in_a_child(work: Callable[[], None]) -> int:
    """The exit code of a child that does some work: 0 if it was done and nothing of it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_does_not_draw_from_its_parents_thread() -> None:
    memory = rl.Memory(checkable.SCHEMA, 1000, 1, seed=0)
    memory.extend(**{key: value[:, None] for key, value in checkable.block(0, 0, 100).items()})

    def work() -> None:
        with refused(rl.errors.StorageError, "prefetch"):
            next(batches)
        batches.close()
        memory.sample(4)

    with memory.prefetch(8) as batches:
        next(batches)
        assert in_a_child(work) == 0
        next(batches)


def test_a_child_does_not_keep_a_folder_locked(tmp_path: Path) -> None:
    """A fork in the middle of a save: the folder is free again when the save is over, however long the child lives."""
    memory = rl.Memory(checkable.SCHEMA, 1000, 1, seed=0)
    memory.extend(**{key: value[:, None] for key, value in checkable.block(0, 0, 100).items()})
    reading, telling = os.pipe()
    children: list[int] = []

    class Forking:
        def __getattr__(self, call: str) -> Any:
            return getattr(SystemDisk(), call)

        def create(self, path: Path) -> int:
            if not children:
                children.append(os.fork())
                if children[0] == 0:
                    os.close(telling)
                    os.read(reading, 1)  # lives on until the parent lets go
                    os._exit(0)
            return SystemDisk().create(path)

    save_on(memory, tmp_path / "saved", Forking())
    saver = threading.Thread(target=memory.save, args=(tmp_path / "saved",), daemon=True)
    saver.start()
    saver.join()
    os.close(telling)
    os.waitpid(children[0], 0)
    os.close(reading)


def test_no_wrong_row_while_a_save_holds_back_a_long_block(tmp_path: Path) -> None:
    """A block waits for a save between its chunks, and readers go on: with anchors of the rows there are by then.

    No lane is cut here, so a row's serial follows from its number.
    """
    memory = rl.Memory(checkable.SCHEMA, 20_000, 1, sampler=rl.Prioritized(), seed=0)
    wrong, drawn, stop = [0], [0], threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                batch = memory.sample(500)
            except rl.errors.NotEnoughRows:
                continue
            expected = checkable.checksums(batch.obs, batch.number, batch.lane, batch.reward, batch.large)
            whole = (batch.checksum == expected) & (batch.next_number == batch.number + 1)
            whole &= batch.serials == batch.number + batch.number // checkable.EPISODE
            wrong[0] += int((~whole).sum())
            drawn[0] += len(whole)

    def save() -> None:
        while not stop.is_set():
            memory.save(tmp_path / "saved")
            checkable.check_lanes(rl.Memory.load(tmp_path / "saved"), cuts=0)

    threads = [threading.Thread(target=work) for work in (read, save)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 2
    for first in itertools.count(0, 18_000):
        block = checkable.block(0, first, 18_000)
        memory.extend(**{key: value[:, None] for key, value in block.items()})
        if time.monotonic() > end and drawn[0] > 10_000:
            break
    stop.set()
    for thread in threads:
        thread.join()
    assert drawn[0] > 10_000
    assert wrong[0] == 0


def test_a_block_that_waits_is_not_broken_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other writers of its lane come before or after all of it."""
    monkeypatch.setattr(saving, "SEGMENT_ROWS", 256)  # rows are let go of bit by bit
    memory = rl.Memory(checkable.SCHEMA, 5000, 1, seed=0)
    stop = threading.Event()
    errors: list[BaseException] = []

    def write(first: int, count: int) -> None:
        at = first
        try:
            while not stop.is_set():
                block = checkable.block(0, at, count)
                memory.extend(**{key: value[:, None] for key, value in block.items()})
                at += count
        except BaseException as error:
            errors.append(error)

    def save() -> None:
        while not stop.is_set():
            memory.save(tmp_path / "saved")

    threads = [
        threading.Thread(target=work, args=args)
        # Whole episodes: more than half a lane of them, and a few, for which there is room earlier.
        for work, args in ((write, (0, 37 * 120)), (write, (37 * 10_000_000, 37 * 3)), (save, ()))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            episodes = memory.episodes
            assert (episodes.length[episodes.whole & (episodes.terminated | episodes.truncated)] == 37).all()
            time.sleep(0.01)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
