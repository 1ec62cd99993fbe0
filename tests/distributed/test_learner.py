"""Draws of a learner over all shards."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from telling_rows import LANE, SCHEMA, check_batch, kill_shard, steps_of, write, write_on

import relive as rl
from refusals import refused
from relive.errors import StorageError
from waiting import PATIENCE, until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


D = rl.distributed


ALARM = 1e-6
"""Chance that a test of a distribution fails though all is right."""


def test_one_distribution_over_all_shards(ray) -> None:
    """Shards of very different totals give what one memory with the same rows and priorities gives."""
    with D.Shards(SCHEMA, 4_000, shards=4, lanes=4, sampler=rl.Prioritized(1.0, beta=0.5, stratified=False)) as shards:
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
            assert batches.restarts == [(0, 100, 0)]  # held 100 steps, was restored with none


@pytest.mark.parametrize("count", [2, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 4))])
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
            with shards.learner(32, group=4, timeout=PATIENCE) as batches:
                for _ in range(2500):  # as fast as the limiter lets it
                    next(batches)
                state = shards.state()
                ratio = batches.batches * 32 / (state["inserted"] - limiter.min_size)
                print(f"{count} shards: {ratio:.3f} samples a step")
                assert ratio == pytest.approx(4, rel=0.05)  # with what is on its way, and what is tolerated
                fast = state["inserted"]
                counts = [fast]
                until(lambda: counts.append(shards.state()["inserted"]) or len(set(counts[-3:])) == 1, pause=0.5)
                assert (counts[-1] - fast) * 4 <= 2 * limiter.slack + 32 * 4 * 3 + 4 * 20 * 4 * 10  # the writer waits
                stop.set()
                while thread.is_alive():  # and goes on once the learner does
                    next(batches)
                    time.sleep(0.01)
        finally:
            stop.set()
            thread.join()


def test_a_learner_waits_for_rows_and_says_so(ray) -> None:
    with D.Shards(SCHEMA, 4_000, lanes=1, limiter=D.Ratio(4, min_size=50)) as shards:
        write(shards, 30)
        with shards.learner(8, timeout=0.5) as batches:
            with refused(StorageError, "shards", got="none"):
                next(batches)
            write(shards, 30, first=30)
        with shards.learner(8, timeout=PATIENCE) as batches:
            check_batch(next(batches))


@pytest.mark.parametrize("durability", ["none", "snapshot"])
def test_a_learner_reads_shared_memory_without_a_call(ray, tmp_path, durability: str) -> None:
    kept = {} if durability == "none" else {"durability": durability, "folder": tmp_path / "kept"}
    parts = {"sampler": rl.Prioritized(1.0, beta=1.0), "storage": "shared", **kept}
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

            def new_is_read() -> bool:
                batch = next(batches)
                check_batch(batch)
                return batch.ticket[0] == 0 and (batch.tag % LANE >= 200).any()

            until(new_is_read)
            names = [shard["segment"] for shard in shards.state()["shards"]]
            here = [path.name for path in Path("/dev/shm").glob(f"relive-{names[0].rpartition('-')[0]}*")]
            assert here == [f"relive-{names[0]}"]  # what the killed one left is gone
    assert not [name for name in names if rl.Shared(name).exists()]
