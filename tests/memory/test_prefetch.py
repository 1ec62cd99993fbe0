"""Batches drawn ahead in a thread."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import relive as rl
from playing import SCHEMA, play


def test_prefetch_gives_batches_ahead() -> None:
    memory = rl.Memory(SCHEMA, 40, 2, seed=0)
    play(memory, 10)
    with memory.prefetch(8, ahead=3) as batches:
        taken = [next(batches).serials.copy() for _ in range(10)]
    twin = rl.Memory(SCHEMA, 40, 2, seed=0)
    play(twin, 10)
    for serials in taken:
        np.testing.assert_array_equal(serials, twin.sample(8).serials)
    with pytest.raises(StopIteration):
        next(batches)


def test_prefetch_ends_for_every_consumer() -> None:
    calls = [0]

    def draw() -> int:
        calls[0] += 1
        if calls[0] == 3:
            raise ValueError("enough")
        return calls[0]

    batches, errors = rl.Prefetch(draw, 1), []

    def consume() -> None:
        try:
            for _ in batches:
                pass
        except ValueError as error:
            errors.append(str(error))

    consumers = [threading.Thread(target=consume) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert errors == ["enough"]


def test_a_forgotten_prefetch_stops() -> None:
    memory = rl.Memory(SCHEMA, 40, 2, seed=0)
    play(memory, 10)
    before = threading.active_count()
    for _ in range(3):
        next(memory.prefetch(4))
    gc.collect()
    assert threading.active_count() == before


def test_the_program_may_end_while_prefetching() -> None:
    code = (
        "import numpy as np, relive as rl\n"
        "memory = rl.Memory(rl.Schema(obs=rl.Field((64,))), 20_000)\n"
        "flags = np.zeros(10_000, bool)\n"
        "memory.extend(obs=np.zeros((10_000, 64)), reward=np.zeros(10_000), terminated=flags, truncated=flags)\n"
        "batches = memory.prefetch(100_000)\n"
        "next(batches)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_prefetch_passes_errors_on() -> None:
    memory = rl.Memory(SCHEMA, 40, 2, seed=0)
    before = threading.active_count()
    with pytest.raises(rl.errors.NotEnoughRows), memory.prefetch(8) as batches:
        next(batches)
    assert threading.active_count() == before
