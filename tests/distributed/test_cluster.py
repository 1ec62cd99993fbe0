"""Shards on a Ray cluster of this machine."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from telling_rows import LANE, SCHEMA, check_batch, kill_shard, steps_of, stored_tags, write, write_on

import relive as rl
from refusals import refused
from relive.errors import OptionError, StorageError
from waiting import PATIENCE, until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
D = rl.distributed


def test_rows_come_back_as_they_went_in(ray, tmp_path) -> None:
    with D.Shards(SCHEMA, 40_000, shards=2, lanes=4) as shards:
        write(shards, 500, block=7)
        state = shards.state()
        assert (len(shards), state["inserted"], state["steps"]) == (2000, 2000, 2000)
        assert [shard["steps"] for shard in state["shards"]] == [1000, 1000]
        with shards.learner(64) as batches:
            seen = set()
            for _ in range(100):
                batch = next(batches)
                check_batch(batch)
                seen |= set(batch.lanes.tolist())
        assert seen == {0, 1, 2, 3}
        tags = stored_tags(shards, tmp_path / "saved")
        assert tags == dict.fromkeys([lane * LANE + number for lane in range(4) for number in range(500)], 1)


@pytest.mark.parametrize(
    "durability", ["journal", *(pytest.param(kept, marks=pytest.mark.slow) for kept in ("none", "snapshot"))]
)
def test_a_shard_that_is_killed(ray, tmp_path, durability: str) -> None:
    """Nothing acknowledged is lost with a journal; otherwise what is lost is said, and no row is wrong or twice."""
    kept = {} if durability == "none" else {"durability": durability, "folder": tmp_path / "kept"}
    if durability == "snapshot":
        kept["save_every"] = 0.5
    with D.Shards(SCHEMA, 400_000, shards=2, lanes=4, sampler=rl.Prioritized(), **kept) as shards:
        writer, number, stop, wrong = shards.writer(block=10), 0, threading.Event(), []

        def learn() -> None:
            try:
                with shards.learner(32, group=2) as batches:
                    while not stop.is_set():
                        batch = next(batches)
                        check_batch(batch)
                        batches.update_priorities(batch, np.ones(32))
            except Exception as error:
                wrong.append(error)

        for number in range(300):
            writer.append(**steps_of(writer.lanes, number))
        thread = threading.Thread(target=learn)
        thread.start()
        for kill in range(3):
            killing = threading.Thread(target=kill_shard, args=(shards, kill % 2))
            killing.start()
            while killing.is_alive() or number % 500:
                number += 1
                writer.append(**steps_of(writer.lanes, number))
                time.sleep(0.001)
            killing.join()
        writer.flush()
        stop.set()
        thread.join()
        assert not wrong
        assert writer.recoveries >= 3
        tags = stored_tags(shards, tmp_path / "saved")
        assert set(tags.values()) == {1}
        missing = 4 * (number + 1) - len(tags)
        assert set(tags) <= {lane * LANE + step for lane in range(4) for step in range(number + 1)}
        if durability == "journal":
            assert (missing, writer.lost) == (0, 0)
        else:
            # Lost rows count closing rows too; a cut turns an open episode's newest step into its final observation.
            assert 0 < missing <= writer.lost + 4 * 3
            assert writer.lost * 22 / 24 <= missing + 4 * 3


def test_a_shard_whose_file_is_cut_short_says_so(ray, tmp_path) -> None:
    """Ray takes over the signal by which that is noticed, here and in its processes."""
    before = rl.Memory(rl.Schema(obs=rl.Field((500,))), 1000, storage=rl.Mapped(tmp_path / "here"))
    with D.Shards(SCHEMA, 40_000, lanes=1, storage="mapped", folder=tmp_path / "kept") as shards:
        writer, pid = write(shards, 1_000), shards.state()["shards"][0]["pid"]
        os.truncate(tmp_path / "kept" / "shard-0" / "rows", 8192)
        with shards.learner(8, timeout=PATIENCE) as batches, refused(StorageError, "memory"):
            next(batches)
        with refused(StorageError, "memory"):
            write_on(writer, 1_000, 1_100)
        os.kill(pid, 0)
    os.truncate(tmp_path / "here", 8192)
    zeros = np.zeros(900)
    with refused(StorageError, "memory"):
        before.extend(obs=np.ones((900, 500)), reward=zeros, terminated=zeros > 0, truncated=zeros > 0)
    with pytest.raises(StorageError):
        before.close()


def test_a_shard_that_stands_still_is_waited_for_and_left_out(ray, tmp_path) -> None:
    with D.Shards(SCHEMA, 40_000, shards=2, lanes=2) as shards:
        write(shards, 100)
        pid = shards.state()["shards"][0]["pid"]
        with shards.learner(8, group=1) as batches:
            next(batches)
            os.kill(pid, signal.SIGSTOP)
            try:
                writer = shards.writer([1], block=5)  # its shard answers
                for number in range(100, 150):
                    writer.append(**steps_of([1], number))
                writer.flush()
                found = [0]
                until(lambda: found.append(int(next(batches).ticket[0])) or set(found[-200:]) == {1}, pause=0.001)
                assert shards.state(timeout=0.5)["shards"][0] is None
                stuck = shards.writer([1], block=5, timeout=PATIENCE)
                stuck.append(**steps_of([1], 150))
                stuck.flush()
            finally:
                os.kill(pid, signal.SIGCONT)
            seen = set()

            def both() -> bool:
                batch = next(batches)
                check_batch(batch)
                seen.add(int(batch.ticket[0]))
                return seen == {0, 1}

            until(both)


def test_a_cluster_that_was_saved_goes_on(ray, tmp_path) -> None:
    parts = {"shards": 2, "lanes": 2, "limiter": D.Ratio(4, min_size=10)}
    with D.Shards(SCHEMA, 4_000, **parts) as shards:
        write(shards, 100)
        with shards.learner(16) as batches:
            next(batches)
        shards.save(tmp_path / "saved")
        write(shards, 50, first=100)
        shards.save(tmp_path / "saved")
        inserted = shards.state()["inserted"]
    with D.Shards.load(tmp_path / "saved", SCHEMA, 4_000, **parts) as shards:
        assert len(shards) == 300 - 2  # open episodes were cut by the second writer
        assert shards.state()["inserted"] == inserted
        with shards.learner(16) as batches:
            check_batch(next(batches))
        write(shards, 10, first=150)
        tags = stored_tags(shards, tmp_path / "again")
        assert set(tags.values()) == {1}
    with refused(OptionError, "shards", got="3"):
        D.Shards.load(tmp_path / "saved", SCHEMA, 3_000, shards=3, lanes=3)


def test_saving_waits_for_shards_that_are_restarted(ray, tmp_path) -> None:
    kept = {"durability": "journal", "folder": tmp_path / "kept"}
    with D.Shards(SCHEMA, 4_000, shards=2, lanes=2, **kept) as shards:
        write(shards, 100)
        os.kill(shards.state()["shards"][1]["pid"], signal.SIGKILL)
        shards.save(tmp_path / "saved")  # at once, while it is being restarted
    with D.Shards.load(tmp_path / "saved", SCHEMA, 4_000, shards=2, lanes=2) as shards:
        assert len(shards) == 200


def test_what_a_folder_holds_is_gone_on_with_if_asked(ray, tmp_path) -> None:
    kept = {"durability": "journal", "folder": tmp_path}
    with D.Shards(SCHEMA, 4_000, lanes=1, **kept) as shards:
        write(shards, 77)
    with refused(StorageError, "*", got="some"):
        D.Shards(SCHEMA, 4_000, lanes=1, **kept)
    with D.Shards(SCHEMA, 4_000, lanes=1, resume=True, **kept) as shards:
        assert len(shards) == 77


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"lanes": 3, "shards": 2}, "lanes"),
        ({"lanes": 3, "capacity": 100}, "capacity"),
        ({"sampler": rl.Shuffled()}, "sampler"),
        ({"durability": "some"}, "durability"),
        ({"durability": "journal"}, "folder"),
        ({"limiter": 8}, "limiter"),
        ({"storage": "disk"}, "storage"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict, about: str) -> None:
    with refused(OptionError, about):
        D.Shards(SCHEMA, **{"capacity": 300, **options})


def test_rows_are_not_pickled(ray, monkeypatch) -> None:
    """What is sent are bytes, numbers and tables of them; and so is what comes back."""
    from ray._private.serialization import SerializationContext

    with D.Shards(SCHEMA, 4_000, lanes=2, sampler=rl.Prioritized()) as shards:
        writer = shards.writer(block=2)
        batches = shards.learner(8, group=2)
        monkeypatch.setattr(SerializationContext, "_serialize_to_pickle5", lambda *_: pytest.fail("pickled"))
        monkeypatch.setattr(SerializationContext, "_deserialize_pickle5_data", lambda *_: pytest.fail("unpickled"))
        for number in range(40):
            writer.append(**steps_of(writer.lanes, number))
        writer.flush()
        for _ in range(20):
            batch = next(batches)
            check_batch(batch)
            batches.update_priorities(batch, np.ones(8))
        batches.close()
