"""Rows that are forgotten before they are overwritten, and rows that are written to later."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from pathlib import Path

import numpy as np
import pytest

import relive as rl
from refusals import refused

WIDTH = 256  # floats of a row: a panel of its own, two rows a kilobyte and more


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def rows_of(first: int, count: int) -> dict[str, np.ndarray]:
    numbers = np.arange(first, first + count)
    return {
        "wide": np.repeat(numbers, WIDTH).reshape(count, WIDTH).astype(np.float32),
        "narrow": numbers.astype(np.int64),
        "terminated": np.zeros(count, bool),
        "truncated": np.arange(count) == count - 1,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much is resident here")
def test_forgotten_rows_give_their_memory_back_and_others_stay() -> None:
    schema = rl.Schema(wide=rl.Field((WIDTH,), role="plain"), narrow=rl.Field((), "int64", "plain"), reward=None)
    memory = rl.Memory(schema, capacity=64 << 10, window=rl.Transition(), seed=0)  # 64 MiB of wide rows
    before = resident()
    kept, size, written = 4096, 1000, 0
    peak = 0
    for _ in range(300):  # more than four times round
        memory.extend(**rows_of(written, size))
        written += size
        memory.forget(0, max(0, written - kept))
        peak = max(peak, resident() - before)
        newest = np.arange(max(0, written - kept), written)
        batch = memory.read(np.zeros(len(newest), np.int64), newest)
        np.testing.assert_array_equal(batch.narrow, newest)
        assert (batch.wide == newest[:, None]).all()
        del batch
    assert len(memory) == kept
    assert peak < 40 << 20  # 4 MiB are kept; the whole ring would be 64 and a batch's pool stays


def test_a_memory_of_the_newest_episodes() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 100, window=rl.Episodes(), sampler=rl.Uniform(replace=False), seed=0)
    for episode in range(6):
        for t in range(3):
            memory.append(obs=episode, reward=0, terminated=t == 2, truncated=False)
    memory.forget(0, int(memory.episodes.start[-2]))
    assert memory.episodes.id.tolist() == [4, 5]
    assert sorted(memory.sample(2).obs[:, 0].tolist()) == [4.0, 5.0]
    with pytest.raises(rl.errors.NotEnoughRows):
        memory.sample(3)


def test_what_cannot_be_forgotten() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 10)
    with refused(rl.errors.OptionError, "lane", got="1"):
        memory.forget(1, 0)
    with refused(rl.errors.OptionError, "before"):
        memory.forget(0, -1)


def test_without_anything_observed_no_row_needs_another() -> None:
    memory = rl.Memory(rl.Schema(note=rl.Field((), "int64", "plain")), 4, seed=0)
    for i in range(6):
        memory.append(note=i, reward=i, terminated=i % 2 == 1, truncated=False)
        assert memory.ready == min(i + 1, 4)
    assert memory["note"].tolist() == [4, 5, 2, 3]
    batch = memory.read(np.zeros(4, np.int64), np.arange(2, 6))
    assert batch.note.tolist() == [2, 3, 4, 5]
    assert batch.terminated.tolist() == [False, True, False, True]


def test_what_is_written_later_is_read_and_saved(tmp_path: Path) -> None:
    schema = rl.Schema(obs=rl.Field((2,)), advantage=rl.Field())
    memory = rl.Memory(schema, 40_000, lanes=2, seed=0)
    block = np.zeros((20_000, 2))
    flags = np.zeros((20_000, 2), bool)
    memory.extend(obs=np.zeros((20_000, 2, 2)), advantage=block, reward=block, terminated=flags, truncated=flags)
    memory.save(tmp_path)
    memory.slots("advantage")[1, 5] = 7.0
    memory.save(tmp_path)
    again = rl.Memory.load(tmp_path)
    for each in (memory, again):
        assert each.read([1], [5]).advantage.tolist() == [7.0]
        assert each.read([0], [5]).advantage.tolist() == [0.0]
    assert memory.slots("obs").shape == (2, 20_000, 2)


def test_forgetting_waits_for_rows_that_are_being_saved_and_for_no_others() -> None:
    memory = rl.Memory(rl.Schema(note=rl.Field((), "int64", "plain"), reward=None), 1000)
    memory.extend(note=np.arange(500), terminated=np.zeros(500, bool), truncated=np.zeros(500, bool))
    memory._store.release(np.array([100]))  # as if a save had written the rows before
    memory.forget(0, 100)
    assert len(memory) == 400
    waiting = threading.Thread(target=memory.forget, args=(0, 150))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    assert len(memory) == 400  # readers pass
    memory._store.release(None)
    waiting.join()
    assert len(memory) == 350


ACTOR = """
import sys
import numpy as np, relive as rl
memory = rl.Memory.open(rl.Shared(sys.argv[1]), window=rl.Sequence(4))
ends, written = np.arange(100) == 99, 0
while written < 40_000:
    block = np.repeat(np.arange(written, written + 100, dtype=np.float32), 500).reshape(100, 500)
    memory.extend(x=block, terminated=ends, truncated=np.zeros(100, bool))
    written += 100
    if written % 1000 == 0:
        memory.forget(0, written - 500)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")
def test_a_learner_goes_on_while_an_actor_forgets() -> None:
    name = f"test-{uuid.uuid4().hex}"
    schema = rl.Schema(x=rl.Field((500,), role="plain"), reward=None)
    with rl.Memory(schema, 4000, storage=rl.Shared(name), window=rl.Sequence(4), seed=0) as memory:
        with subprocess.Popen([sys.executable, "-c", ACTOR, name]) as actor:
            while memory.ready == 0:
                assert actor.poll() is None
            drawn = 0
            while actor.poll() is None or drawn < 100:
                batch = memory.sample(16)
                assert (batch.x == batch.x[:, :, :1]).all()
                assert (np.diff(batch.x[:, :, 0], axis=1)[batch.mask[:, 1:]] == 1).all()
                drawn += 1
        assert actor.returncode == 0
        assert 400 <= len(memory) <= 1500
