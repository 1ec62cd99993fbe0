"""Crashes at any moment: of the process, by SIGKILL, and of the machine, by a disk that forgets what was not synced."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkable
import relive as rl
from disks import CrashDisk, save_on


def fill(memory: rl.Memory, first: int, count: int) -> None:
    for lane in range(memory.lanes):
        memory.extend(lanes=lane, **checkable.block(lane, first, count))


def new_memory(span: int, sampler: rl.Sampler | None = None, **options: Any) -> rl.Memory:
    return rl.Memory(checkable.SCHEMA, 2 * span, 2, sampler=sampler or rl.Prioritized(), seed=0, **options)


def fingerprint(memory: rl.Memory) -> list[Any]:
    """What tells one state of a memory from another, without changing it."""
    state = memory.random_state
    batch = memory.sample(8)
    memory.random_state = state
    return [len(memory), state, batch.number.tolist(), batch.weights.tolist(), memory.episodes.start.tolist()]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("journal", [None, "written"])
def test_every_step_of_a_save_may_be_the_last(tmp_path: Path, seed: int, journal: str | None) -> None:
    """Whatever of a save had reached the disk, the last acknowledged snapshot loads, or the one being made."""
    source = random.Random(seed)
    folder, image = tmp_path / "saved", tmp_path / "image"
    folder.mkdir()
    memory = new_memory(700)
    allowed: list[list[Any]] = []
    safe: list[int] = []
    tried = 0

    def crash() -> None:
        nonlocal tried
        if not allowed:
            return
        for files in disk.crashes(source, 3):
            shutil.rmtree(image, ignore_errors=True)
            image.mkdir()
            for name, data in files.items():
                (image / name).write_bytes(data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if journal else "error")  # a journal may end in the middle of a record
                memory = rl.Memory.load(image)
            if journal is None:
                assert fingerprint(memory) in allowed
            else:
                assert all(now >= then for now, then in zip(checkable.newest(memory), safe, strict=True))
            tried += 1

    disk = CrashDisk(folder, crash)
    number = 0
    for _ in range(5):
        count = source.choice([5, 150, 400, 700])
        fill(memory, number, count)
        number += count
        memory.update_priorities(memory.sample(16), np.arange(16.0))
        if source.random() < 0.5:
            memory.cut(0)
        now = fingerprint(memory)
        allowed = [*allowed[-1:], now] if allowed else []
        save_on(memory, folder, disk, journal)
        allowed = [now]
        safe = checkable.newest(memory)
    crash()
    assert tried > 100


class Refusing:
    """A disk whose n-th call fails."""

    def __init__(self, real: Any, at: int) -> None:
        self.real, self.left = real, at

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise OSError(28, "No space left on device")
            return getattr(self.real, name)(*args)

        return call


@pytest.mark.parametrize("journal", [None, "written"])
def test_a_disk_that_fails_at_any_call_costs_nothing(tmp_path: Path, journal: str | None) -> None:
    """The error reaches the caller, the last snapshot stays, the memory goes on, and the next save works."""
    folder = tmp_path / "saved"
    memory = new_memory(500)
    fill(memory, 0, 300)
    memory.save(folder, journal=journal)
    number, failed = 300, 0
    for at in range(1, 200):
        before = fingerprint(rl.Memory.load(folder))
        fill(memory, number, 40)
        number += 40
        real = CrashDisk(folder)
        real.adopt()
        disk = Refusing(real, at)
        try:
            save_on(memory, folder, disk, journal)
        except OSError:
            failed += 1
            if journal is None:
                assert fingerprint(rl.Memory.load(folder)) in (before, fingerprint(memory))
            else:  # what is appended from now on is logged all the same
                fill(memory, number, 10)
                number += 10
                assert checkable.newest(rl.Memory.load(folder)) == checkable.newest(memory)
            continue
        break
    assert failed > 10
    assert fingerprint(rl.Memory.load(folder)) == fingerprint(memory)
    kept = {path.name for path in folder.iterdir()}
    memory.save(folder, journal=journal)
    assert not any(name.startswith("tmp-") for name in kept | {path.name for path in folder.iterdir()})


def in_child(work: Callable[[Callable[[int], None]], None], seconds: float, *, after_a_word: bool) -> int:
    """Runs work(tell) in a forked child; returns the last number that it told.

    It is killed after some time from its beginning, which on a busy machine may be before its first word, or from its
    first word.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            work(lambda number: os.write(write, number.to_bytes(8, "little")) and None)
        finally:
            os._exit(1)
    os.close(write)
    told = os.read(read, 1 << 16) if after_a_word else b""
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    while data := os.read(read, 1 << 16):
        told += data
    os.close(read)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the child ended by itself"
    whole = len(told) // 8 * 8
    return int.from_bytes(told[whole - 8 : whole], "little") if whole else -1


def kills(count: int, longest: float) -> list[float]:
    """Moments to kill at, spread evenly in a random order."""
    source = random.Random(count)
    moments = [(k + 1) * longest / count for k in range(count)]
    source.shuffle(moments)
    return moments


ROUNDS = pytest.mark.parametrize("rounds", [12, pytest.param(100, marks=pytest.mark.slow)])


@ROUNDS
def test_killed_while_saving(tmp_path: Path, rounds: int) -> None:
    """First saves, saves on top of others and appends in between: no acknowledged snapshot is ever missing."""
    folder = tmp_path / "saved"
    acknowledged = -1
    for turn, seconds in enumerate(kills(rounds, 0.25)):
        known = 0 if acknowledged < 0 else acknowledged

        def work(tell: Callable[[int], None], first: int = known) -> None:
            if first:
                memory = rl.Memory.load(folder)
                memory.cut()
                number = min(checkable.newest(memory)) + 1
            else:
                memory, number = new_memory(6000), 0
            while True:
                for lane in range(2):
                    memory.extend(lanes=lane, **checkable.block(lane, number, 1500))
                number += 1500
                memory.save(folder)
                tell(number)

        told = in_child(work, seconds, after_a_word=turn % 2 == 1)
        acknowledged = max(acknowledged, told)
        if acknowledged > 0:
            memory = rl.Memory.load(folder)
            assert min(checkable.newest(memory)) >= acknowledged - 3
            for _ in range(3):
                checkable.check(memory.sample(64))
    assert acknowledged > 0


def made(path: Path) -> bool:
    return path.exists() and any(path.read_bytes()[:24])


def newest_numbers(memory: rl.Memory) -> list[int]:
    """The newest step's number by lane, whether or not its outcome is known."""
    episodes = memory.episodes
    ends = [int((episodes.start + episodes.length)[episodes.lane == lane].max()) for lane in range(memory.lanes)]
    numbers = memory.slots("number")
    return [int(numbers[lane, (end - 1) % numbers.shape[1]]) for lane, end in enumerate(ends)]


@ROUNDS
def test_killed_while_appending_to_a_file(tmp_path: Path, rounds: int) -> None:
    """Every step that append returned from is in the mapped file."""
    path = tmp_path / "rows"
    number, acknowledged = 0, 0
    for turn, seconds in enumerate(kills(rounds, 0.12)):

        def work(tell: Callable[[int], None], first: int = number, new: bool = not made(path)) -> None:
            memory = new_memory(900, storage=rl.Mapped(path)) if new else rl.Memory.open(rl.Mapped(path))
            memory.cut()
            at = first
            while True:
                count = 1 + at % 90
                for lane in range(2):
                    memory.extend(lanes=lane, **checkable.block(lane, at, count))
                at += count
                tell(at)

        told = in_child(work, seconds, after_a_word=turn % 2 == 1)
        if not made(path):
            continue
        with rl.Memory.open(rl.Mapped(path)) as memory:
            if not len(memory):
                continue
            acknowledged = max(acknowledged, told)
            newest = min(newest_numbers(memory))
            # A child that was killed before its first word may have cut the newest step: it is then what was seen last.
            assert newest >= acknowledged - (1 if told > 0 else 2)
            checkable.check_lanes(memory)
        number = max(newest, number, acknowledged) + 100
    assert number > 100 * (rounds // 2)


@ROUNDS
def test_killed_while_logging(tmp_path: Path, rounds: int) -> None:
    """Every step that append returned from is in the snapshot or its journals."""
    folder = tmp_path / "saved"
    number, acknowledged = 0, 0
    for turn, seconds in enumerate(kills(rounds, 0.2)):

        def work(tell: Callable[[int], None], first: int = number) -> None:
            memory = rl.Memory.load(folder) if (folder / "manifest.json").exists() else new_memory(900)
            memory.cut()
            memory.save(folder, journal="written")
            at = first
            while True:
                for _ in range(20):
                    count = 1 + at % 60
                    for lane in range(2):
                        memory.extend(lanes=lane, **checkable.block(lane, at, count))
                    at += count
                    tell(at)
                memory.save(folder, journal="written")

        told = in_child(work, seconds, after_a_word=turn % 2 == 1)
        if not (folder / "manifest.json").exists():
            continue
        memory = rl.Memory.load(folder)
        newest = min(checkable.newest(memory))
        acknowledged = max(acknowledged, told)
        assert newest >= acknowledged - 3
        if len(memory):
            checkable.check_lanes(memory)
        number = max(newest, number, acknowledged) + 100
    assert number > 100 * (rounds // 2)
