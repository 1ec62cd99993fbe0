"""Counts, messages and one shard, in this process: no cluster is started."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect as rc
from recollect.distributed.messages import Update, pack_batches, pack_updates, unpack_batches, unpack_updates
from recollect.distributed.shard import Shard, ShardSpec
from recollect.distributed.tally import Ratio, Tally
from recollect.errors import OptionError

SCHEMA = rc.Schema(obs=rc.Field((3,)), tag=rc.Field((), "int64"))


def spec(**options: object) -> ShardSpec:
    parts = {
        "cluster": "test",
        "index": 1,
        "schema": SCHEMA,
        "capacity": 400,
        "lanes": 2,
        "sampler": rc.Prioritized(beta=0.0),
        "window": rc.Transition(),
        "stack": {},
        "max_episodes": None,
        "seed": 0,
        "storage": "ram",
        "durability": "none",
        "folder": None,
        "save_every": 1e9,
        "journal_bytes": 1 << 30,
    }
    return ShardSpec(**{**parts, **options})  # type: ignore[arg-type]


class Source:
    """Rows that say who they are, packed from a memory as a writer does."""

    def __init__(self) -> None:
        self.memory, self.count = rc.Memory(SCHEMA, 2000, 2, seed=0), 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            tags = np.array([self.count, 10_000 + self.count])
            ends = np.full(2, self.count % 9 == 8)
            obs = np.repeat(tags[:, None], 3, 1)
            self.memory.append(obs=obs, tag=tags, reward=tags, terminated=ends, truncated=[False, False])
            self.count += 1

    def packed(self, first: list[int], offset: int = 0) -> bytes:
        heads = self.memory.heads
        runs = [(lane, first[lane], int(heads[lane]) - first[lane]) for lane in (0, 1)]
        return self.memory.pack_rows(runs, [(lane, start + offset, count) for lane, start, count in runs])


# ---- counts ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["inserted", "sampled"]), st.integers(1, 9)), max_size=30))
def test_tallies_come_to_the_same_in_any_order(events: list[tuple[int, str, int]]) -> None:
    sources = [Tally() for _ in range(3)]
    messages = []
    for source, name, more in events:
        sources[source].count(name, f"source-{source}", more)
        messages.append(sources[source].plain())
    merged = Tally()
    shuffled = messages * 2
    random.Random(0).shuffle(shuffled)
    for message in shuffled:
        merged.join(message)
    for name, place in (("inserted", 0), ("sampled", 1)):
        assert merged.totals[place] == sum(more for _, what, more in events if what == name)


def test_whoever_is_not_ahead_goes_on() -> None:
    limiter = Ratio(8, min_size=100, tolerance=80)
    tally = Tally()
    for inserted, sampled, insert, sample in (
        (0, 0, True, False),  # too little to learn from
        (99, 0, True, False),
        (100, 0, True, True),
        (110, 0, True, True),  # 80 samples to draw: as many as is tolerated
        (111, 0, False, True),
        (111, 8, True, True),
        (111, 168, True, True),
        (111, 169, True, False),
    ):
        tally.inserted["shard"], tally.sampled["learner"] = inserted, sampled
        tally.held["shard"] = [0, min(inserted, 100)]
        assert (limiter.may_insert(tally), limiter.may_sample(tally)) == (insert, sample), (inserted, sampled)


@given(st.floats(0.1, 100), st.integers(1, 1000), st.integers(0, 5000), st.integers(0, 50_000), st.floats(0, 1000))
def test_never_do_both_wait(samples: float, least: int, inserted: int, sampled: int, tolerance: float) -> None:
    limiter, tally = Ratio(samples, min_size=least, tolerance=tolerance), Tally()
    tally.inserted["shard"], tally.sampled["learner"], tally.held["shard"] = inserted, sampled, [0, inserted]
    assert limiter.may_insert(tally) or limiter.may_sample(tally)


def test_limiters_that_are_none_are_refused() -> None:
    for given_, message in (
        ({"samples": 0}, "samples must be above 0, got 0"),
        ({"samples": 1, "tolerance": -1}, "tolerance must be at least 0, got -1"),
    ):
        with pytest.raises(OptionError) as caught:
            Ratio(**given_)  # type: ignore[arg-type]
        assert str(caught.value) == message


# ---- messages --------------------------------------------------------------------------------------------------------


def test_batches_come_back_as_they_were() -> None:
    memory = rc.Memory(rc.Schema(obs={"camera": rc.Field((2, 3), "uint8"), "pose": rc.Field((5,))}), 100, seed=0)
    for number in range(30):
        obs = {"camera": np.full((2, 3), number), "pose": np.full(5, number)}
        memory.append(obs=obs, reward=number, terminated=number % 7 == 6, truncated=False)
    batches = [memory.sample(size) for size in (4, 4, 7)]
    head, found = unpack_batches(pack_batches({"epoch": 3}, batches))
    assert head["epoch"] == 3
    for one, other in zip(batches, found, strict=True):
        assert type(other) is rc.Batch
        np.testing.assert_array_equal(one.obs.camera, other.obs.camera)
        for key in ("reward", "weights", "lanes", "serials", "discount", "terminated"):
            np.testing.assert_array_equal(one[key], other[key])
            assert other[key].dtype == one[key].dtype
            assert other[key].flags.writeable
        assert other.next_obs.pose.ctypes.data % 64 == 0


def test_batches_of_two_messages_are_not_of_the_same_memory() -> None:
    """What is handed out again is what nobody holds."""
    memory = rc.Memory(rc.Schema(obs=rc.Field((5,))), 100, seed=0)
    held = []
    for number in range(1, 21):
        memory.append(obs=np.full(5, number), reward=number, terminated=True, truncated=False, final_obs=np.zeros(5))
        message = pack_batches({}, [memory.sample(8)])
        held.append((unpack_batches(message)[1][0], unpack_batches(message)[1][0].reward.tolist()))
        for batch, rewards in held:
            assert batch.reward.tolist() == rewards
            np.testing.assert_array_equal(batch.obs[:, 0], rewards)
        if number % 5 == 0:
            del held[::2]


def test_updates_come_back_as_they_were() -> None:
    updates = [Update(1, 2, np.arange(3.0)), Update(2**62, 5, np.zeros(0)), Update(4, 6, np.ones(1))]
    found = list(unpack_updates(pack_updates(updates)))
    assert [(update.epoch, update.draw, update.errors.tolist()) for update in found] == [
        (1, 2, [0, 1, 2]),
        (2**62, 5, []),
        (4, 6, [1]),
    ]
    with pytest.raises(ValueError, match="cut off"):
        list(unpack_updates(pack_updates(updates)[:-2]))


# ---- a shard ---------------------------------------------------------------------------------------------------------


def test_a_block_that_comes_twice_is_stored_and_counted_once() -> None:
    shard, source = Shard(spec()), Source()
    attached = shard.attach(1, [0, 1], None)
    assert attached["heads"] == [0, 0]
    source.steps(10)
    data = source.packed([0, 0])
    for _ in range(2):
        answer = shard.append(attached["epoch"], 1, [0, 1], data)
        assert answer["heads"] == source.memory.heads.tolist()
    assert shard.tally.totals == (20, 0, 20)


def test_a_block_after_a_gap_is_not_stored() -> None:
    shard, source = Shard(spec()), Source()
    epoch = shard.attach(1, [0, 1], None)["epoch"]
    source.steps(10)
    assert shard.append(epoch, 1, [0, 1], source.packed([3, 3])) == {"stale": True}
    assert len(shard.memory) == 0


def test_another_epoch_is_not_believed() -> None:
    shard, source = Shard(spec()), Source()
    shard.attach(1, [0, 1], None)
    source.steps(2)
    assert shard.append(shard.epoch + 1, 1, [0, 1], source.packed([0, 0])) == {"stale": True}


def test_a_writer_that_was_replaced_writes_no_more() -> None:
    shard, source = Shard(spec()), Source()
    epoch = shard.attach(5, [0, 1], None)["epoch"]
    source.steps(4)
    shard.append(epoch, 5, [0, 1], source.packed([0, 0]))
    later = shard.attach(6, [1], None)
    assert later["heads"] == [int(source.memory.heads[1])]  # cut: its newest row closes the episode
    assert shard.memory.episodes.truncated.tolist() == [False, True]
    source.steps(1)
    assert shard.append(epoch, 5, [0, 1], source.packed([4, 4])) == {"taken": 1}
    assert shard.attach(5, [1], [0]) == {"taken": 1}
    assert shard.attach(5, [1], None)["generation"] == 7  # one that begins is later, whatever its clock says


def test_rows_of_lanes_that_are_not_the_writers_are_refused() -> None:
    shard, source = Shard(spec()), Source()
    epoch = shard.attach(1, [0], None)["epoch"]
    source.steps(2)
    with pytest.raises(OptionError) as caught:
        shard.append(epoch, 1, [0], source.packed([0, 0]))
    assert str(caught.value) == "rows must be of the writer's lanes [0], got some of lane 1"
    assert len(shard.memory) == 0


def filled() -> Shard:
    shard, source = Shard(spec()), Source()
    epoch = shard.attach(1, [0, 1], None)["epoch"]
    source.steps(50)
    shard.append(epoch, 1, [0, 1], source.packed([0, 0]))
    return shard


@pytest.mark.parametrize("drawn", [0, 3])
def test_batches_of_a_call_are_independent_and_priorities_find_their_rows(drawn: int) -> None:
    shard = filled()
    if drawn:  # the first call learns how batches lie
        unpack_batches(shard.sample(32, drawn, 0.4, b"", Tally().plain()))
    head, batches = unpack_batches(shard.sample(32, 3, 0.4, b"", Tally().plain()))
    assert (head["first"], len(batches), head["total"]) == (drawn, 3, shard.memory.standing[0])
    for batch in batches:  # every batch covers all rows: none is a slice of one stratified draw
        assert set(batch.lanes) == {2, 3}  # numbers in the cluster: shard 1 of two lanes each
        assert sorted(np.unique(batch.lanes, return_counts=True)[1]) == [16, 16]
    errors = np.arange(1, 33, dtype=np.float32)
    shard.look(Tally().plain(), pack_updates([Update(shard.epoch, drawn + 1, errors)]))
    expected = {}
    for lane, serial, error in zip(batches[1].lanes, batches[1].serials, errors, strict=True):
        expected[int(lane) - 2, int(serial)] = (float(error) + 1e-6) ** 0.6
    for (lane, serial), priority in expected.items():
        assert shard.memory.priorities[lane, serial] == pytest.approx(priority)


def test_priorities_that_come_late_are_dropped_and_counted() -> None:
    shard = filled()
    shard.sample(8, 1, 0.4, b"", Tally().plain())
    before = shard.memory.priorities.copy()
    late = [
        Update(shard.epoch + 1, 0, np.ones(8)),
        Update(shard.epoch, 7, np.ones(8)),
        Update(shard.epoch, 0, np.ones(3)),
    ]
    shard.look(Tally().plain(), pack_updates(late))
    np.testing.assert_array_equal(shard.memory.priorities, before)
    assert shard._late == 19
    shard.look(Tally().plain(), pack_updates([Update(shard.epoch, 0, np.ones(8))]))  # its rows are given up by now
    assert shard._late == 27


def test_an_empty_shard_gives_no_batch() -> None:
    head, batches = unpack_batches(Shard(spec()).sample(8, 2, 0.4, b"", Tally().plain()))
    assert (batches, head["total"]) == ([], 0.0)


@pytest.mark.parametrize("durability", ["none", "snapshot", "journal", "mapped"])
def test_what_a_shard_begins_again_with(tmp_path, durability: str) -> None:
    """A second one from the same folder, as Ray makes it when the first was killed."""
    how = {"folder": str(tmp_path), "durability": "none" if durability == "mapped" else durability}
    if durability == "mapped":
        how["storage"] = "mapped"
    first, source = Shard(spec(**how)), Source()
    epoch = first.attach(1, [0, 1], None)["epoch"]
    source.steps(20)
    first.append(epoch, 1, [0, 1], source.packed([0, 0]))
    if durability != "none" and durability != "mapped":
        first._keep()
    acked = source.memory.heads.tolist()
    source.steps(13)
    first.append(epoch, 1, [0, 1], source.packed(acked))
    heads = source.memory.heads.tolist()
    if durability == "mapped":
        first.memory.close()  # one process cannot open the file twice
    again = Shard(spec(**how))
    assert again.epoch != epoch
    kept = {"none": [0, 0], "snapshot": acked, "journal": heads, "mapped": heads}[durability]
    assert again.memory.heads.tolist() == kept
    attached = again.attach(1, [0, 1], heads)
    if kept == heads:
        assert attached["heads"] == heads
        source.steps(5)
        assert again.append(again.epoch, 1, [0, 1], source.packed(heads))["heads"] == source.memory.heads.tolist()
        tags = again.memory.newest(1000).tag
        assert sorted(tags.tolist()) == sorted([*range(38), *range(10_000, 10_038)])


def test_a_checkpoint_elsewhere_loses_no_row_of_the_journal(tmp_path) -> None:
    how = {"folder": str(tmp_path / "kept"), "durability": "journal"}
    first, source = Shard(spec(**how)), Source()
    epoch = first.attach(1, [0, 1], None)["epoch"]
    source.steps(20)
    first.append(epoch, 1, [0, 1], source.packed([0, 0]))
    first.save(str(tmp_path / "checkpoint"))
    acked = source.memory.heads.tolist()
    source.steps(7)
    first.append(epoch, 1, [0, 1], source.packed(acked))
    assert Shard(spec(**how)).memory.heads.tolist() == source.memory.heads.tolist()
    assert rc.Memory.load(tmp_path / "checkpoint").heads.tolist() == acked
