"""Rows that say who they are, and what is done to shards that hold them."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np

import relive as rl
from waiting import until

SCHEMA = rl.Schema(obs=rl.Field((4,)), tag=rl.Field((), "int64"))
LANE = 10_000_000
"""Tags of a lane begin at its number times this."""


def obs_of(tags: np.ndarray) -> np.ndarray:
    """What a row with this tag has seen: never zero, and no two alike."""
    tags = np.asarray(tags, np.int64)
    return np.stack([tags % 997 + 1, tags // 997 % 997 + 1, tags // 994_009 + 1, tags % 89 + 1], -1).astype(np.float32)


def steps_of(lanes: list[int], number: int, length: int = 23) -> dict:
    """One step of lanes, whose episodes have this length."""
    tags = np.array(lanes, np.int64) * LANE + number
    ends = np.full(len(lanes), number % length == length - 1)
    return {
        "obs": obs_of(tags),
        "tag": tags,
        "reward": tags % 13,
        "terminated": ends & (number // length % 2 == 0),
        "truncated": ends & (number // length % 2 == 1),
        "final_obs": obs_of(tags + 1),
    }


def write(shards: rl.distributed.Shards, count: int, first: int = 0, **how) -> rl.distributed.ShardWriter:
    """A writer that has written so many steps of its lanes."""
    writer = shards.writer(**how)
    write_on(writer, first, first + count)
    return writer


def write_on(writer: rl.distributed.ShardWriter, first: int, last: int) -> None:
    """Write steps of these numbers."""
    for number in range(first, last):
        writer.append(**steps_of(writer.lanes, number))
    writer.flush()


def check_batch(batch: rl.Batch) -> None:
    """Every row is whole, and what followed it followed it."""
    np.testing.assert_array_equal(batch.obs, obs_of(batch.tag))
    np.testing.assert_array_equal(batch.next_obs, obs_of(batch.tag + 1))
    np.testing.assert_array_equal(batch.tag // LANE, batch.lanes)


def stored_tags(shards: rl.distributed.Shards, folder: Path) -> Counter:
    """How often every tag is stored, by snapshots of all shards."""
    shards.save(folder)
    turn = json.loads((folder / "cluster.json").read_text())["turn"]
    found: Counter = Counter()
    for path in sorted((folder / str(turn)).iterdir()):
        rows = rl.Memory.load(path).inspect.newest(10_000_000)
        np.testing.assert_array_equal(rows.obs, obs_of(rows.tag))
        found.update(rows.tag.tolist())
    return found


def kill_shard(shards: rl.distributed.Shards, index: int) -> None:
    """Kill a shard's process, and wait until it is there again."""
    state = shards.state()["shards"][index]
    while state is None:  # it is being started still
        time.sleep(0.1)
        state = shards.state()["shards"][index]
    os.kill(state["pid"], signal.SIGKILL)
    epoch = state["epoch"]
    until(lambda: (now := shards.state()["shards"][index]) is not None and now["epoch"] != epoch)
