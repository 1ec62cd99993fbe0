"""Counts, messages and one shard, in this process: no cluster is started."""

from unittest import mock

import numpy as np
import pytest

import relive as rl
from refusals import refused
from relive.distributed.messages import Update, pack_updates, unpack_batches
from relive.distributed.shard import Shard, ShardSpec
from relive.distributed.tally import Tally
from relive.errors import OptionError

SCHEMA = rl.Schema(obs=rl.Field((3,)), tag=rl.Field((), "int64"))


def spec(**options: object) -> ShardSpec:
    parts = {
        "cluster": "test",
        "index": 1,
        "schema": SCHEMA,
        "capacity": 400,
        "lanes": 2,
        "sampler": rl.Prioritized(beta=0.0),
        "window": rl.Transition(),
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
        self.memory, self.count = rl.Memory(SCHEMA, 2000, 2, seed=0), 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            tags = np.array([self.count, 10_000 + self.count])
            ends = np.full(2, self.count % 9 == 8)
            obs = np.repeat(tags[:, None], 3, 1)
            self.memory.append(obs=obs, tag=tags, reward=tags, terminated=ends, truncated=[False, False])
            self.count += 1

    def packed(self, first: list[int], offset: int = 0) -> bytes:
        heads = self.memory.inspect.heads
        runs = [(lane, first[lane], int(heads[lane]) - first[lane]) for lane in (0, 1)]
        return self.memory.transfer.pack_rows(runs, [(lane, start + offset, count) for lane, start, count in runs])


def test_a_block_that_comes_twice_is_stored_and_counted_once() -> None:
    shard, source = Shard(spec()), Source()
    attached = shard.attach(1, [0, 1], None)
    assert attached["heads"] == [0, 0]
    source.steps(10)
    data = source.packed([0, 0])
    for _ in range(2):
        answer = shard.append(attached["epoch"], 1, [0, 1], data)
        assert answer["heads"] == source.memory.inspect.heads.tolist()
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
    assert later["heads"] == [int(source.memory.inspect.heads[1])]  # cut: its newest row closes the episode
    assert shard.memory.episodes.truncated.tolist() == [False, True]
    source.steps(1)
    assert shard.append(epoch, 5, [0, 1], source.packed([4, 4])) == {"taken": 1}
    assert shard.attach(5, [1], [0]) == {"taken": 1}
    assert shard.attach(5, [1], None)["generation"] == 7  # one that begins is later, whatever its clock says


def test_rows_of_lanes_that_are_not_the_writers_are_refused() -> None:
    shard, source = Shard(spec()), Source()
    epoch = shard.attach(1, [0], None)["epoch"]
    source.steps(2)
    with refused(OptionError, "rows", got="some of lane 1"):
        shard.append(epoch, 1, [0], source.packed([0, 0]))
    assert len(shard.memory) == 0


def filled() -> Shard:
    shard, source = Shard(spec()), Source()
    epoch = shard.attach(1, [0, 1], None)["epoch"]
    source.steps(50)
    shard.append(epoch, 1, [0, 1], source.packed([0, 0]))
    return shard


def test_a_shard_relabels_in_hindsight() -> None:
    goal = rl.Field((1,))
    schema = rl.Schema(obs={"achieved_goal": goal, "desired_goal": goal})
    window = rl.Hindsight("final", 1e9, reward=lambda achieved, desired: (achieved == desired)[:, 0] * 7.0)
    shard = Shard(spec(schema=schema, window=window, lanes=1, index=0))
    for t in range(4):
        final = {"final_obs": {"achieved_goal": [4], "desired_goal": [9]}} if t == 3 else {}
        obs = {"achieved_goal": [t], "desired_goal": [9]}
        shard.memory.append(obs=obs, reward=0.0, terminated=False, truncated=t == 3, lanes=0, **final)
    for _ in range(2):  # the first call may learn how batches lie
        _, batches = unpack_batches(shard.sample(32, 3, 0.4, b"", Tally().plain()))
        for batch in batches:
            assert batch.relabelled.all()
            assert (batch.obs.desired_goal == 4).all()
            assert set(batch.reward.tolist()) == {0.0, 7.0}


def test_steps_are_counted_right_after_cuts() -> None:
    """A cut turns the newest step into the final observation of the one before."""
    shard, source = Shard(spec()), Source()
    epoch = shard.attach(1, [0, 1], None)["epoch"]
    source.steps(5)
    shard.append(epoch, 1, [0, 1], source.packed([0, 0]))

    def held() -> int:
        return int(shard.tally.plain()["held"]["shard-1"][1])

    assert held() == len(shard.memory) == 10
    shard.cut(epoch, 1, 0, int(shard.memory.inspect.heads[0]))
    assert held() == len(shard.memory) == 9
    shard.attach(2, [1], None)  # a writer that begins cuts what the one before left open
    assert held() == len(shard.memory) == 8


@pytest.mark.parametrize("drawn", [0, 3])
def test_batches_of_a_call_are_independent_and_priorities_find_their_rows(drawn: int) -> None:
    shard = filled()
    if drawn:  # the first call learns how batches lie
        unpack_batches(shard.sample(32, drawn, 0.4, b"", Tally().plain()))
    head, batches = unpack_batches(shard.sample(32, 3, 0.4, b"", Tally().plain()))
    assert (head["first"], len(batches), head["total"]) == (drawn, 3, shard.memory.transfer.sampling_weight[0])
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


def test_priorities_that_come_late_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relive.distributed.shard.import_ray", mock.Mock())
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
    assert shard.state()["dropped"] == 19
    shard.look(Tally().plain(), pack_updates([Update(shard.epoch, 0, np.ones(8))]))  # its rows are given up by now
    assert shard.state()["dropped"] == 27


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
    if durability == "snapshot":
        first.save(str(tmp_path / first.spec.name))  # as is done when it is due
    elif durability == "journal":
        first.save(str(tmp_path / "elsewhere"))
    acked = source.memory.inspect.heads.tolist()
    source.steps(13)
    first.append(epoch, 1, [0, 1], source.packed(acked))
    heads = source.memory.inspect.heads.tolist()
    if durability == "mapped":
        first.memory.close()  # one process cannot open the file twice
    again = Shard(spec(**how))
    assert again.epoch != epoch
    kept = {"none": [0, 0], "snapshot": acked, "journal": heads, "mapped": heads}[durability]
    assert again.memory.inspect.heads.tolist() == kept
    attached = again.attach(1, [0, 1], heads)
    if kept == heads:
        assert attached["heads"] == heads
        source.steps(5)
        assert (
            again.append(again.epoch, 1, [0, 1], source.packed(heads))["heads"] == source.memory.inspect.heads.tolist()
        )
        tags = again.memory.inspect.newest(1000).tag
        assert sorted(tags.tolist()) == sorted([*range(38), *range(10_000, 10_038)])


def test_a_checkpoint_elsewhere_loses_no_row_of_the_journal(tmp_path) -> None:
    how = {"folder": str(tmp_path / "kept"), "durability": "journal"}
    first, source = Shard(spec(**how)), Source()
    epoch = first.attach(1, [0, 1], None)["epoch"]
    source.steps(20)
    first.append(epoch, 1, [0, 1], source.packed([0, 0]))
    first.save(str(tmp_path / "checkpoint"))
    acked = source.memory.inspect.heads.tolist()
    source.steps(7)
    first.append(epoch, 1, [0, 1], source.packed(acked))
    assert Shard(spec(**how)).memory.inspect.heads.tolist() == source.memory.inspect.heads.tolist()
    assert rl.Memory.load(tmp_path / "checkpoint").inspect.heads.tolist() == acked
