"""Shards on a Ray cluster of this machine."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from telling_rows import LANE, SCHEMA, check_batch, kill_shard, steps_of, stored_tags

import recollect as rc
from recollect.distributed.view import ShardsView
from recollect.errors import OptionError, PriorityError, StepError, StorageError

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
D = rc.distributed
ALARM = 1e-6
"""Chance that a test of a distribution fails though all is right."""


def write(shards: D.Shards, count: int, first: int = 0, **how) -> D.ShardWriter:
    writer = shards.writer(**how)
    write_on(writer, first, first + count)
    return writer


def write_on(writer: D.ShardWriter, first: int, last: int) -> None:
    for number in range(first, last):
        writer.append(**steps_of(writer.lanes, number))
    writer.flush()


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


def test_writers_of_other_processes_share_the_lanes(ray, tmp_path) -> None:
    with D.Shards(SCHEMA, 40_000, shards=2, lanes=4) as shards:

        @ray.remote(num_cpus=0)
        def work(shards, lanes):
            writer = shards.writer(lanes, block=5)
            for number in range(200):
                writer.append(**steps_of(writer.lanes, number))
            writer.close()

        ray.get([work.remote(shards, [0, 2]), work.remote(shards, [1]), work.remote(shards, [3])])
        tags = stored_tags(shards, tmp_path / "saved")
        assert len(tags) == 800
        assert set(tags.values()) == {1}


def test_one_distribution_over_all_shards(ray) -> None:
    """Shards of very different totals give what one memory with the same rows and priorities gives."""
    with D.Shards(SCHEMA, 4_000, shards=4, lanes=4, sampler=rc.Prioritized(1.0, beta=0.5, stratified=False)) as shards:
        for lane, count in enumerate((15, 30, 60, 120)):
            write(shards, count, lanes=[lane])
        rng = np.random.default_rng(0)
        errors = {}
        with shards.learner(64, group=4) as batches:
            while len(errors) < 4 * 14 + 29 + 59 + 119 - 3 * 14:  # every row that can be drawn, given its own error
                batch = next(batches)
                for lane, serial in zip(batch.lanes.tolist(), batch.serials.tolist(), strict=True):
                    errors.setdefault((lane, serial), float(rng.uniform(0.1, 4) * (1 + lane)))
                found = [errors[row] for row in zip(batch.lanes.tolist(), batch.serials.tolist(), strict=True)]
                batches.update_priorities(batch, found)
                ready = sum(shard["ready"] for shard in shards.state()["shards"])
                if len(errors) == ready:
                    break
            for _ in range(20):
                batch = next(batches)
                found = [errors[row] for row in zip(batch.lanes.tolist(), batch.serials.tolist(), strict=True)]
                batches.update_priorities(batch, found)
        rows = sorted(errors)
        priority = np.array([errors[row] + 1e-6 for row in rows])
        chance = priority / priority.sum()
        counts = dict.fromkeys(rows, 0)
        with shards.learner(64, group=4, ahead=3) as batches:  # a learner that knows nothing of the one before
            np.testing.assert_allclose(sum(batches.totals), priority.sum(), rtol=1e-6)
            for _ in range(3000):
                batch = next(batches)
                for lane, serial in zip(batch.lanes.tolist(), batch.serials.tolist(), strict=True):
                    counts[lane, serial] += 1
                drawn = np.array([errors[row] + 1e-6 for row in zip(batch.lanes, batch.serials, strict=True)])
                np.testing.assert_allclose(batch.weights, (priority.min() / drawn) ** 0.5, rtol=1e-4)
        observed = np.array([counts[row] for row in rows])
        # Batches come from one shard each: shards by batches, rows within them by rows.
        lanes = np.array([row[0] for row in rows])
        groups = np.array([observed[lanes == lane].sum() / 256 for lane in range(4)])
        wanted = np.array([chance[lanes == lane].sum() for lane in range(4)])
        assert stats.chisquare(groups, wanted * groups.sum()).pvalue > ALARM
        for lane in range(4):
            mine = lanes == lane
            expected = chance[mine] / chance[mine].sum() * observed[mine].sum()
            assert stats.chisquare(observed[mine], expected).pvalue > ALARM


def test_uniform_draws_count_rows(ray) -> None:
    with D.Shards(SCHEMA, 4_000, shards=2, lanes=2) as shards:
        write(shards, 300, lanes=[0])
        write(shards, 100, lanes=[1])
        with shards.learner(10, group=1) as batches:
            from_first = sum(int(next(batches).ticket[0] == 0) for _ in range(1000))
        ready = [shard["ready"] for shard in shards.state()["shards"]]
        share = ready[0] / sum(ready)
        assert stats.binomtest(from_first, 1000, share).pvalue > ALARM


@pytest.mark.parametrize("durability", ["journal", "snapshot", "none"])
def test_a_shard_that_is_killed(ray, tmp_path, durability: str) -> None:
    """Nothing acknowledged is lost with a journal; otherwise what is lost is said, and no row is wrong or twice."""
    kept = {} if durability == "none" else {"durability": durability, "folder": tmp_path / "kept"}
    if durability == "snapshot":
        kept["save_every"] = 0.5
    with D.Shards(SCHEMA, 400_000, shards=2, lanes=4, sampler=rc.Prioritized(), **kept) as shards:
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


def test_answers_of_a_shard_that_died_since_are_not_believed(ray) -> None:
    with D.Shards(SCHEMA, 40_000, lanes=1) as shards:
        writer = write(shards, 100)
        with shards.learner(8, ahead=4, group=1) as batches:
            next(batches)
            time.sleep(0.5)  # what was drawn ahead is answered before the shard dies
            kill_shard(shards, 0)
            write_on(writer, 100, 200)
            epoch = shards.state()["shards"][0]["epoch"]
            batches.refresh()
            for _ in range(20):
                batch = next(batches)
                check_batch(batch)
                assert batch.ticket[1] == epoch
            assert len(batches.restarts) == 1


def test_a_shard_whose_file_is_cut_short_says_so(ray, tmp_path) -> None:
    """Ray takes over the signal by which that is noticed, here and in its processes."""
    before = rc.Memory(rc.Schema(obs=rc.Field((500,))), 1000, storage=rc.Mapped(tmp_path / "here"))
    with D.Shards(SCHEMA, 40_000, lanes=1, storage="mapped", folder=tmp_path / "kept") as shards:
        writer, pid = write(shards, 1_000), shards.state()["shards"][0]["pid"]
        os.truncate(tmp_path / "kept" / "shard-0" / "rows", 8192)
        with shards.learner(8, timeout=20) as batches, pytest.raises(StorageError, match="one that was cut short"):
            next(batches)
        with pytest.raises(StorageError, match="one that was cut short"):
            write_on(writer, 1_000, 1_100)
        os.kill(pid, 0)
    os.truncate(tmp_path / "here", 8192)
    zeros = np.zeros(900)
    with pytest.raises(StorageError, match="one that was cut short"):
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
                late = time.monotonic() + 4
                found = []
                while time.monotonic() < late:
                    found.append(int(next(batches).ticket[0]))
                assert set(found[-20:]) == {1}
                assert shards.state(timeout=0.5)["shards"][0] is None
                stuck = shards.writer([1], block=5, timeout=0.5)
                stuck.append(**steps_of([1], 150))
                stuck.flush()
            finally:
                os.kill(pid, signal.SIGCONT)
            late, seen = time.monotonic() + 10, set()
            while seen != {0, 1} and time.monotonic() < late:
                batch = next(batches)
                check_batch(batch)
                seen.add(int(batch.ticket[0]))
            assert seen == {0, 1}


def test_a_writer_says_that_a_shard_does_not_answer(ray) -> None:
    with D.Shards(SCHEMA, 4_000, lanes=1) as shards:
        writer = shards.writer(block=2, unacked=1, timeout=0.5)
        pid = shards.state()["shards"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StorageError) as caught:
                write_on(writer, 0, 20)
        finally:
            os.kill(pid, signal.SIGCONT)
        said = "shard 0 must answer within 0.5 s, got nothing. Look at Shards.state()."
        assert str(caught.value) == said


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_limiter_keeps_its_ratio(ray, count: int) -> None:
    limiter = D.Ratio(4, min_size=400, tolerance=400)
    with D.Shards(SCHEMA, 400_000, shards=count, lanes=4, limiter=limiter) as shards:
        stop, written = threading.Event(), [0]

        def produce() -> None:
            writer = shards.writer(block=20)
            while not stop.is_set():
                writer.append(**steps_of(writer.lanes, written[0]))
                written[0] += 1

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        try:
            with shards.learner(32, group=4, timeout=60) as batches:
                for _ in range(2500):  # as fast as the limiter lets it
                    next(batches)
                state = shards.state()
                ratio = batches.batches * 32 / (state["inserted"] - limiter.min_size)
                print(f"{count} shards: {ratio:.3f} samples a step")
                assert ratio == pytest.approx(4, rel=0.05)  # with what is on its way, and what is tolerated
                fast = state["inserted"]
                time.sleep(1.0)  # the learner stands still: the writer waits
                after = shards.state()["inserted"]
                assert (after - fast) * 4 <= 2 * limiter.slack + 32 * 4 * 3 + 4 * 20 * 4 * 10
                time.sleep(0.5)
                assert shards.state()["inserted"] == after
                stop.set()
                while thread.is_alive():  # and goes on once the learner does
                    next(batches)
                    time.sleep(0.01)
        finally:
            stop.set()
            thread.join(20)


def test_shards_are_shown(ray) -> None:
    with D.Shards(SCHEMA, 4_000, shards=2, lanes=2, limiter=D.Ratio(4, min_size=50)) as shards:
        write(shards, 100)
        with shards.learner(8, group=1) as batches:
            for _ in range(10):
                next(batches)
            batches.refresh()
            found = ShardsView(shards).answer({"what": "summary"})
        assert [shard["steps"] for shard in found["shards"]] == [100, 100]
        assert found["limiter"]["samples"] == 4
        assert found["limiter"]["ratio"] == pytest.approx(80 / 150, abs=8 / 150)
        assert "error" in ShardsView(shards).answer({"what": "row", "lane": 0, "serial": 0})


def test_a_learner_waits_for_rows_and_says_so(ray) -> None:
    with D.Shards(SCHEMA, 4_000, lanes=1, limiter=D.Ratio(4, min_size=50)) as shards:
        write(shards, 30)
        with shards.learner(8, timeout=0.5) as batches:
            with pytest.raises(StorageError) as caught:
                next(batches)
            assert str(caught.value).startswith("shards must give a batch within 0.5 s, got none.")
            write(shards, 30, first=30)
            check_batch(next(batches))


@pytest.mark.parametrize("durability", ["none", "snapshot"])
def test_a_learner_reads_shared_memory_without_a_call(ray, tmp_path, durability: str) -> None:
    kept = {} if durability == "none" else {"durability": durability, "folder": tmp_path / "kept"}
    parts = {"sampler": rc.Prioritized(1.0, beta=1.0), "storage": "shared", **kept}
    with D.Shards(SCHEMA, 40_000, shards=2, lanes=4, **parts) as shards:
        writer = write(shards, 200, block=10)
        with shards.learner(64) as batches:
            for _ in range(200):
                batch = next(batches)
                check_batch(batch)
                batches.update_priorities(batch, 1 + batch.lanes)
            weights = {lane: batch.weights[batch.lanes == lane] for lane in range(4)}
            for _ in range(50):
                batch = next(batches)
                for lane in set(batch.lanes.tolist()):
                    weights[lane] = batch.weights[batch.lanes == lane]
            assert weights[3].max() == pytest.approx(1 / 4, rel=1e-3)
            kill_shard(shards, 0)
            for number in range(200, 300):
                writer.append(**steps_of(writer.lanes, number))
            writer.flush()
            late, seen = time.monotonic() + 20, set()
            while 0 not in seen and time.monotonic() < late:
                batch = next(batches)
                check_batch(batch)
                if (batch.tag % LANE >= 200).any():
                    seen.add(int(batch.ticket[0]))
            assert 0 in seen  # the new segment is read
            names = [shard["segment"] for shard in shards.state()["shards"]]
            here = [path.name for path in Path("/dev/shm").glob(f"recollect-{names[0].rpartition('-')[0]}*")]
            assert here == [f"recollect-{names[0]}"]  # what the killed one left is gone
    assert not [name for name in names if rc.Shared(name).exists()]


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
    with pytest.raises(OptionError, match="shards must be the 2 that were saved, got 3"):
        D.Shards.load(tmp_path / "saved", SCHEMA, 3_000, shards=3, lanes=3)


def test_what_a_folder_holds_is_gone_on_with_if_asked(ray, tmp_path) -> None:
    kept = {"durability": "journal", "folder": tmp_path}
    with D.Shards(SCHEMA, 4_000, lanes=1, **kept) as shards:
        write(shards, 77)
    with pytest.raises(StorageError) as caught:
        D.Shards(SCHEMA, 4_000, lanes=1, **kept)
    remedy = "Give resume=True to go on with it, or another folder."
    assert str(caught.value) == f"{tmp_path} must hold no shards yet, got some. {remedy}"
    with D.Shards(SCHEMA, 4_000, lanes=1, resume=True, **kept) as shards:
        assert len(shards) == 77


def test_cutting_ends_episodes(ray) -> None:
    with D.Shards(SCHEMA, 4_000, shards=2, lanes=2) as shards:
        writer = shards.writer(block=4)
        for number in range(10):
            writer.append(**steps_of(writer.lanes, number))
        writer.cut([1])
        for number in range(11, 15):
            writer.append(**steps_of(writer.lanes, number))
        writer.flush()
        assert [shard["steps"] for shard in shards.state()["shards"]] == [14, 13]
        with shards.learner(64) as batches:
            for _ in range(20):
                batch = next(batches)
                after = batch.next_obs[:, 3] - batch.obs[:, 3]
                assert set(after[batch.lanes == 1].tolist()) <= {1.0, -88.0}  # never over the cut


def test_a_writer_that_a_later_one_replaced(ray) -> None:
    with D.Shards(SCHEMA, 4_000, shards=2, lanes=4) as shards:
        old = write(shards, 10, block=2)
        write(shards, 10, first=10, lanes=[3], block=2)
        with pytest.raises(StorageError) as caught:
            write_on(old, 10, 20)
        assert str(caught.value) == "lane 3 must have one writer, got another that came later. Take another lane."


def test_bad_steps_and_errors_are_refused_at_once(ray) -> None:
    with D.Shards(SCHEMA, 4_000, lanes=2, sampler=rc.Prioritized()) as shards:
        writer = shards.writer(block=2)
        with pytest.raises(StepError):
            writer.append(obs=np.zeros((2, 5)), tag=[1, 2], reward=[0, 0], terminated=[0, 0], truncated=[0, 0])
        write(shards, 20)
        with shards.learner(8) as batches:
            batch = next(batches)
            for errors in (np.ones(7), np.full(8, np.nan), "no"):
                with pytest.raises((PriorityError, OptionError)):
                    batches.update_priorities(batch, errors)
            with pytest.raises(OptionError, match="batch must have a ticket"):
                batches.update_priorities(rc.Batch(obs=1), np.ones(8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lanes": 3, "shards": 2}, "lanes must be a multiple of the 2 shards, got 3"),
        ({"lanes": 3, "capacity": 100}, "capacity must be a multiple of the 3 lanes, got 100"),
        ({"sampler": rc.Shuffled()}, "sampler must be Uniform or Prioritized, got Shuffled"),
        ({"durability": "some"}, "durability must be one of none, snapshot, journal, got 'some'"),
        ({"durability": "journal"}, "folder must be given for what has to outlive a shard, got None"),
        ({"limiter": 8}, "limiter must be a Ratio, got int"),
        ({"storage": "disk"}, "storage must be one of ram, shared, mapped, got 'disk'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        D.Shards(SCHEMA, **{"capacity": 300, **options})
    assert str(caught.value) == message


def test_nothing_listens_beyond_this_machine(ray) -> None:
    """Sockets of this session's Ray processes are on loopback."""
    found = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    own = [
        line.split()[3] for line in found.splitlines() if "gcs_server" in line or "raylet" in line or "ray::" in line
    ]
    assert own
    assert all("127.0.0.1" in address for address in own), own


def test_a_stranger_without_the_token_is_refused(ray, tmp_path) -> None:
    address = ray.get_runtime_context().gcs_address
    code = f"import recollect as rc; rc.distributed.connect({address!r}); print('let in')"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    stranger = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert stranger.returncode != 0
    assert "let in" not in stranger.stdout
    assert "InvalidAuthToken" in stranger.stderr


def test_rows_are_not_pickled(ray, monkeypatch) -> None:
    """What is sent are bytes, numbers and tables of them; and so is what comes back."""
    from ray._private.serialization import SerializationContext

    with D.Shards(SCHEMA, 4_000, lanes=2, sampler=rc.Prioritized()) as shards:
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
