"""Rows that go from one memory to another as bytes: once each, whatever comes twice or in pieces."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relive as rl
from refusals import refused
from relive.errors import OptionError, StaleRows

SCHEMA = rl.Schema(obs=rl.Field((2,)), tag=rl.Field((), "int64"))
LOOSE = rl.Schema(obs=rl.Field((2,)), next_obs=rl.Field((2,)), tag=rl.Field((), "int64"))


def step_of(lane: int, number: int, end: int, schema: rl.Schema) -> dict[str, object]:
    obs = np.array([lane, number], np.float32)
    more = {"next_obs": obs + 1} if schema is LOOSE else {"final_obs": obs + 1}
    return {
        "obs": obs,
        "tag": lane * 1000 + number,
        "reward": number,
        "terminated": end == 1,
        "truncated": end == 2,
        **more,
    }


def same(one: rl.Memory, other: rl.Memory) -> None:
    assert one.inspect.heads.tolist() == other.inspect.heads.tolist()
    for key in one:
        np.testing.assert_array_equal(one[key], other[key])
    for key in ("lane", "id", "start", "length", "terminated", "truncated"):
        np.testing.assert_array_equal(one.episodes[key], other.episodes[key])


@settings(deadline=None)
@given(data=st.data(), loose=st.booleans())
def test_what_is_sent_in_pieces_and_twice_is_stored_once(data: st.DataObject, loose: bool) -> None:
    schema = LOOSE if loose else SCHEMA
    here, there = (rl.Memory(schema, 2 * 40, 2, seed=0) for _ in range(2))
    sent = [0, 0]
    packed: list[bytes] = []
    counts = [0, 0]
    for _ in range(data.draw(st.integers(1, 40))):
        if data.draw(st.booleans()):
            lane = data.draw(st.integers(0, 1))
            here.append(lanes=lane, **step_of(lane, counts[lane], data.draw(st.sampled_from([0, 0, 1, 2])), schema))
            counts[lane] += 1
        elif packed and data.draw(st.booleans()):
            assert there.transfer.receive_rows(data.draw(st.sampled_from(packed))) == 0
        else:
            heads = here.inspect.heads
            runs = [(lane, sent[lane], int(heads[lane]) - sent[lane]) for lane in (0, 1) if heads[lane] > sent[lane]]
            if runs:
                packed.append(here.transfer.pack_rows(runs))
                there.transfer.receive_rows(packed[-1])
                sent = heads.tolist()
                same(here, there)


def test_rows_that_overlap_go_on_after_what_is_there() -> None:
    here, there = (rl.Memory(SCHEMA, 40, 1, seed=0) for _ in range(2))
    for number in range(10):
        here.append(lanes=0, **step_of(0, number, int(number == 4), SCHEMA))
    there.transfer.receive_rows(here.transfer.pack_rows([(0, 0, 4)]))
    assert there.transfer.receive_rows(here.transfer.pack_rows([(0, 2, 9)])) == 6
    same(here, there)


def test_an_episode_whose_beginning_was_lost_begins_where_it_goes_on() -> None:
    here, there = (rl.Memory(SCHEMA, 40, 1, seed=0) for _ in range(2))
    for number in range(6):
        here.append(lanes=0, **step_of(0, number, int(number == 5), SCHEMA))
    there.transfer.receive_rows(here.transfer.pack_rows([(0, 3, 4)], [(0, 0, 4)]))
    assert there.episodes.start.tolist() == [0]
    assert there.episodes.length.tolist() == [3]
    assert there["tag"][0, :3].tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("runs", "serials", "got"),
    [
        ([(0, 2, 3)], [(0, 4, 3)], "3 rows from serial 4 on"),
        ([(0, 5, 1)], [(0, 0, 1)], "1 rows from serial 0 on"),  # a closing row alone
        ([(0, 6, 2)], [(0, 3, 2)], "2 rows from serial 3 on"),  # a first row amid an episode
    ],
)
def test_rows_that_do_not_go_on_are_refused(runs: object, serials: object, got: str) -> None:
    here, there = (rl.Memory(SCHEMA, 40, 1, seed=0) for _ in range(2))
    for number in range(9):
        here.append(lanes=0, **step_of(0, number, int(number == 4), SCHEMA))
    if "serial 3" in got:
        there.transfer.receive_rows(here.transfer.pack_rows([(0, 0, 3)]))
    before = there.inspect.heads.tolist()
    with refused(OptionError, "rows"):
        there.transfer.receive_rows(here.transfer.pack_rows(runs, serials))
    assert there.inspect.heads.tolist() == before


def test_bytes_that_are_no_rows_are_refused() -> None:
    memory = rl.Memory(SCHEMA, 40, 1, seed=0)
    memory.append(lanes=0, **step_of(0, 0, 0, SCHEMA))
    data = memory.transfer.pack_rows([(0, 0, 1)])
    for bad, got in (
        (b"", "bytes that begin otherwise"),
        (b"x" * 100, "bytes that begin otherwise"),
        (data[:-1], f"{len(data) - 1} bytes for 1 rows"),
        (data + b"\0", f"{len(data) + 1} bytes for 1 rows"),
        (memory.transfer.pack_rows([(0, 0, 1)], [(7, 0, 1)]), "the run [7, 0, 1] for 1 lanes of 40 rows"),
        (data[:8] + (1 << 60).to_bytes(8, "little") + data[16:], f"{1 << 60} runs"),
    ):
        with refused(OptionError, "rows", got=got):
            memory.transfer.receive_rows(bad)
    with pytest.raises(StaleRows):
        memory.transfer.pack_rows([(0, 0, 2)])


@pytest.mark.parametrize("kind", ["ram", "mapped"])
def test_received_rows_are_in_the_journal(tmp_path, kind: str) -> None:
    here = rl.Memory(SCHEMA, 60, 1, seed=0)
    storage = rl.Mapped(tmp_path / "rows") if kind == "mapped" else None
    there = rl.Memory(SCHEMA, 60, 1, seed=0, storage=storage)
    there.save(tmp_path / "saved", journal="written")
    for number in range(20):
        here.append(lanes=0, **step_of(0, number, int(number % 7 == 6), SCHEMA))
    there.transfer.receive_rows(here.transfer.pack_rows([(0, 0, int(here.inspect.heads[0]))]))
    same(rl.Memory.load(tmp_path / "saved"), here)


def test_receiving_waits_for_rows_that_a_save_holds(tmp_path) -> None:
    """A thread receives and wraps round the ring while others save: every snapshot is of one instant."""
    here, there = (rl.Memory(SCHEMA, 200, 1, seed=0) for _ in range(2))
    stop = threading.Event()
    saved: list[list[int]] = []

    def save() -> None:
        while not stop.is_set():
            there.save(tmp_path / "saved")
            rows = rl.Memory.load(tmp_path / "saved").inspect.newest(1000)
            saved.append(sorted(rows.tag.tolist()))

    thread = threading.Thread(target=save)
    thread.start()
    number = 0
    while len(saved) < 15:
        for _ in range(37):
            here.append(lanes=0, **step_of(0, number, int(number % 11 == 10), SCHEMA))
            number += 1
        first = int(there.inspect.heads[0])
        there.transfer.receive_rows(here.transfer.pack_rows([(0, first, int(here.inspect.heads[0]) - first)]))
    stop.set()
    thread.join()
    for tags in saved:
        assert tags == list(range(tags[0], tags[0] + len(tags))) if tags else True
    same(here, there)


def test_most_episodes_are_kept_of_received_rows() -> None:
    here, there = rl.Memory(SCHEMA, 100, 1, seed=0), rl.Memory(SCHEMA, 100, 1, seed=0, max_episodes=2)
    for number in range(20):
        here.append(lanes=0, **step_of(0, number, int(number % 4 == 3), SCHEMA))
    there.transfer.receive_rows(here.transfer.pack_rows([(0, 0, int(here.inspect.heads[0]))]))
    assert there.episodes.id.tolist() == [3, 4]


@pytest.mark.parametrize("sampler", [rl.Uniform(), rl.Prioritized(alpha=1.0)])
def test_sampling_weight_is_the_sum_and_the_least(sampler: rl.Sampler) -> None:
    memory = rl.Memory(SCHEMA, 60, 2, sampler=sampler, seed=0)
    assert memory.transfer.sampling_weight == (0.0, 0.0)
    for number in range(10):
        for lane in (0, 1):
            memory.append(lanes=lane, **step_of(lane, number, int(number == 5), SCHEMA))
    assert memory.transfer.sampling_weight == (memory.ready, 1.0)
    if isinstance(sampler, rl.Prioritized):
        batch = memory.sample(64)
        memory.update_priorities(batch, np.linspace(0.1, 3, 64))
        found = memory.priorities
        total, least = memory.transfer.sampling_weight
        assert total == pytest.approx(found.sum(), rel=1e-12)
        assert least == found[found > 0].min()
