"""Writers of shards: lanes, epochs, and what is refused."""

import os
import signal

import numpy as np
import pytest
from telling_rows import SCHEMA, steps_of, stored_tags, write, write_on

import relive as rl
from refusals import refused
from relive.errors import OptionError, PriorityError, StepError, StorageError

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


D = rl.distributed


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


def test_a_writer_says_that_a_shard_does_not_answer(ray) -> None:
    with D.Shards(SCHEMA, 4_000, lanes=1) as shards:
        writer = shards.writer(block=2, unacked=1, timeout=0.5)
        pid = shards.state()["shards"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with refused(StorageError, "shard 0", got="nothing"):
                write_on(writer, 0, 20)
        finally:
            os.kill(pid, signal.SIGCONT)


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
        with refused(StorageError, "lane 3", got="another that came later"):
            write_on(old, 10, 20)


def test_bad_steps_and_errors_are_refused_at_once(ray) -> None:
    with D.Shards(SCHEMA, 4_000, lanes=2, sampler=rl.Prioritized()) as shards:
        writer = shards.writer(block=2)
        with pytest.raises(StepError):
            writer.append(obs=np.zeros((2, 5)), tag=[1, 2], reward=[0, 0], terminated=[0, 0], truncated=[0, 0])
        write(shards, 20)
        with shards.learner(8) as batches:
            batch = next(batches)
            for errors in (np.ones(7), np.full(8, np.nan), "no"):
                with pytest.raises((PriorityError, OptionError)):
                    batches.update_priorities(batch, errors)
            with refused(OptionError, "batch"):
                batches.update_priorities(rl.Batch(obs=1), np.ones(8))
