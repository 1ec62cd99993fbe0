"""The memory as a user meets it: looking inside, sizes, limits, bytes, threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import relive as rl
from playing import SCHEMA, play
from refusals import refused
from relive.errors import OptionError, SchemaError, StaleRows
from waiting import until


def test_bytes_in_use_are_those_of_rows_that_are_held() -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field((100,))), 1000, lanes=2, seed=0)
    assert memory.inspect.used_nbytes == 0
    for t in range(60):
        ended = np.full(2, t % 20 == 19)
        obs = np.zeros((2, 100))
        memory.append(obs=obs, reward=np.zeros(2), terminated=ended, truncated=np.zeros(2, bool), final_obs=obs)
    assert memory.inspect.used_nbytes == int(memory.nbytes * (2 * 63 / 1000))
    memory.forget(0, 42)
    assert memory.inspect.used_nbytes == int(memory.nbytes * ((63 + 21) / 1000))


def test_views_are_read_only_and_live() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    play(memory, 3)
    view = memory["obs"]
    assert view.shape == (2, 3, 2)
    assert view[1, 2].tolist() == [2, 1]
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0, 0] = 1
    play(memory, 30, start=3)
    assert memory["obs"].shape == (2, 10, 2)
    assert memory["obs"][0, :, 0].tolist() == [30, 31, 32, 23, 24, 25, 26, 27, 28, 29]
    with refused(SchemaError, "field", got="'nope'"):
        memory["nope"]


def test_views_and_batches_outlive_the_memory() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    play(memory, 5)
    view, batch = memory["obs"], memory.sample(8)
    kept = batch.obs.copy()
    del memory
    gc.collect()
    assert view[0, 4, 0] == 4
    np.testing.assert_array_equal(batch.obs, kept)


def test_len_overwriting_clear_and_repr() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    assert (len(memory), memory.inspect.overwrites, memory.ready) == (0, False, 0)
    play(memory, 8, every=4)
    assert (len(memory), memory.inspect.overwrites, memory.ready) == (16, True, 16)
    assert repr(memory) == (
        f"Memory(16 steps in 20 rows, 2 lanes, {memory.nbytes / 2**20:.1f} MiB, Uniform(replace=True), "
        "Transition(gamma=0.99), Schema(obs: float32[2], action: uint8, reward: float32))"
    )
    batch = memory.sample(4)
    memory.clear()
    assert (len(memory), memory.inspect.overwrites, memory.ready) == (0, False, 0)
    with pytest.raises(StaleRows):
        memory.read(batch.lanes, batch.serials)
    play(memory, 3)
    assert memory.sample(1).serials.min() >= 10
    assert memory.episodes.length.tolist() == [3, 3]


def test_episodes_are_known() -> None:
    memory = rl.Memory(SCHEMA, 24, 2, seed=0)
    play(memory, 10, every=4)
    found = memory.episodes
    assert found.lane.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.id.tolist() == [0, 1, 2, 0, 1, 2]
    assert found.start.tolist() == [0, 5, 10, 0, 5, 10]
    assert found.length.tolist() == [4, 4, 2, 4, 4, 2]
    assert found.terminated.tolist() == [True, True, False] * 2
    assert found.whole.all()
    play(memory, 2, every=4, start=10)
    assert memory.episodes.whole.tolist() == [False, True, True] * 2
    assert memory.episodes.id.tolist() == [0, 1, 2] * 2
    play(memory, 1, every=4, start=12)
    assert memory.episodes.id.tolist() == [1, 2, 3] * 2


def test_reading_rows_by_serial() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    play(memory, 12, every=5)
    batch = memory.sample(16)
    again = memory.read(batch.lanes, batch.serials)
    for key in batch:
        np.testing.assert_array_equal(batch[key], again[key])
    for lane, serial, got in [
        (0, 0, "serials 4 to 13 in that lane"),
        (0, 5, "serials 4 to 13 in that lane"),
        (7, 5, "no such lane"),
    ]:
        with refused(StaleRows, f"row 0 (lane {lane}, serial {serial})", got=got):
            memory.read([lane], [serial])


def test_bytes_are_exact() -> None:
    """Rows, flags and cursors, each rounded up to a page; then the priorities."""
    page = 4096

    def pages(count: int) -> int:
        return -(-count // page) * page

    plain = rl.Memory(SCHEMA, 100_000, 4, seed=0)
    row = 2 * 4 + 4 + 1 + 3
    index = plain.nbytes - pages(100_000 * row) - pages(100_000) - pages(2 * 4 * 8)
    assert 0 < index < 1000
    ranked = rl.Memory(SCHEMA, 100_000, 4, sampler=rl.Prioritized(), seed=0)
    levels = [100_000, 12_504, 1_568, 200, 32, 8]
    assert ranked.nbytes - plain.nbytes == 8 * (sum(levels) + sum(levels[1:]))


def test_bytes_against_plain_copies() -> None:
    """Transitions a byte, against a buffer that keeps obs and next_obs as arrays of their own."""

    def a_row(schema: rl.Schema) -> float:
        return rl.Memory(schema, 10_000, seed=0).nbytes / 10_000

    image = rl.Schema(obs=rl.Field((84, 84), "uint8"), action=rl.Field((), "uint8"))
    plain = 2 * 4 * 84 * 84 + 1 + 4 + 1
    assert plain / a_row(image) > 7.9
    vector = rl.Schema(obs=rl.Field((17,)), action=rl.Field((), "uint8"))
    assert (2 * 17 * 4 + 1 + 4 + 1) / a_row(vector) > 1.8


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"capacity": -1}, "capacity"),
        ({"capacity": 2**62}, "capacity"),
        ({"capacity": 10.5}, "capacity"),
        ({"capacity": 11}, "capacity"),
        ({"lanes": 0}, "lanes"),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        (
            {"window": rl.NStep(20)},
            "capacity",
        ),
        ({"stack": {"action": 4}}, "stack"),
        ({"stack": {"obs": 0}}, "stack['obs']"),
        (
            {"window": rl.Sequence(3, start_fields=("hidden",))},
            "start_fields",
        ),
    ],
)
def test_bad_settings(options: dict[str, Any], about: str) -> None:
    with refused(OptionError, about):
        rl.Memory(**({"schema": SCHEMA, "capacity": 20, "lanes": 2, "seed": 0} | options))


def test_more_than_the_machine_has() -> None:
    with refused(OptionError, "capacity", got="8388608 rows of 4000004 bytes, 31250.0 GiB"):
        rl.Memory(rl.Schema(obs=rl.Field((1000, 1000))), 2**23, seed=0)


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"window": rl.Transition}, "window"),
        ({"sampler": rl.Uniform}, "sampler"),
        ({"schema": {"obs": 1}}, "schema"),
        ({"sampler": "per"}, "sampler"),
        ({"window": 3}, "window"),
        ({"storage": "rows"}, "storage"),
        ({"stack": "obs"}, "stack"),
    ],
)
def test_classes_are_not_objects(options: dict[str, Any], about: str) -> None:
    with refused(OptionError, about):
        rl.Memory(**({"schema": SCHEMA, "capacity": 20} | options))


def test_a_memory_is_true_and_knows_its_fields() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    assert memory
    assert "obs" in memory
    assert "nope" not in memory
    assert list(memory) == ["obs", "action", "reward"]
    assert memory["obs"].shape == (2, 0, 2)
    play(memory, 4, every=3)
    assert memory["terminated"].tolist() == [[False, False, True, False, False]] * 2
    assert not memory["truncated"].any()


def test_huge_sizes_cost_nothing_where_rows_are_few() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, sampler=rl.Shuffled(), seed=0)
    play(memory, 4)
    assert memory.sample(2**31 - 1).serials.size == 6


def test_stack_needs_windows_that_find_what_follows() -> None:
    schema = rl.Schema(obs=rl.Field((2,)), next_obs=rl.Field((2,)))
    with refused(OptionError, "stack", got="obs"):
        rl.Memory(schema, 20, stack={"obs": 2})


def test_threads_may_sample_while_another_writes() -> None:
    """Every row carries its number in all its fields; a torn row would show."""
    schema = rl.Schema(obs=rl.Field((40,)), action=rl.Field((300,), "int64"))
    memory = rl.Memory(schema, 4000, 4, sampler=rl.Prioritized(), window=rl.NStep(2, 1.0), seed=0)
    stop, problems, drawn = threading.Event(), [], [0, 0]

    def write() -> None:
        t = 0
        while not stop.is_set():
            number = (4 * t + np.arange(4)).astype(np.float32) % 2**20
            memory.append(
                obs=np.repeat(number[:, None], 40, 1),
                action=np.repeat(number[:, None].astype(np.int64), 300, 1),
                reward=number,
                terminated=np.zeros(4, bool),
                truncated=np.full(4, t % 7 == 6),
                final_obs=np.repeat(number[:, None] + 4, 40, 1),
            )
            t += 1

    def read(who: int) -> None:
        while not stop.is_set():
            if memory.ready < 100:
                continue
            batch = memory.sample(64)
            first = batch.obs[:, :1]
            steps = np.where(batch.truncated & (batch.next_obs[:, 0] == first[:, 0] + 4), 1, 2)
            if not ((batch.obs == first).all() and (batch.action == first).all()):
                problems.append("torn row")
            if not (batch.next_obs == first + 4 * steps[:, None]).all():
                problems.append("wrong next")
            memory.update_priorities(batch, np.ones(64))
            drawn[who] += 1

    threads = [threading.Thread(target=write), *(threading.Thread(target=read, args=(who,)) for who in range(2))]
    for thread in threads:
        thread.start()
    until(lambda: problems or min(drawn) > 300)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_empty_blocks_do_nothing() -> None:
    memory = rl.Memory(SCHEMA, 20, 2, seed=0)
    nothing = {"obs": np.zeros((0, 2, 2)), "action": np.zeros((0, 2), int), "reward": np.zeros((0, 2))}
    flags = np.zeros((0, 2), bool)
    memory.extend(**nothing, terminated=flags, truncated=flags)
    memory.append(
        lanes=[],
        obs=np.zeros((0, 2)),
        action=np.zeros(0, int),
        reward=np.zeros(0),
        terminated=flags[:, 0],
        truncated=flags[:, 0],
    )
    assert len(memory) == 0


@pytest.mark.parametrize("name", ["add", "push", "put", "store", "insert"])
def test_what_other_buffers_call_it_is_answered_with_our_name(name: str) -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 10)
    with pytest.raises(AttributeError, match=r"with append, .* with extend"):
        getattr(memory, name)(obs=1.0)
    assert not hasattr(memory, name)
    assert name not in dir(memory)
