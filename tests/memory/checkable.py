"""Rows that tell whether they are whole, and processes that write them.

Row ``number`` of a lane holds values that follow from the two, and a checksum of all its fields.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import recollect as rc

WIDTH = 24
EPISODE = 37

SCHEMA = rc.Schema(
    obs=rc.Field((WIDTH,)),
    number=rc.Field((), "int64", role="observed"),
    lane=rc.Field((), "int32"),
    checksum=rc.Field((), "uint64"),
    large=rc.Field((100,), "uint32"),  # a panel of its own
)


def observations(lane: Any, number: Any) -> np.ndarray[Any, Any]:
    base = (np.asarray(lane)[..., None] * 7919 + np.asarray(number)[..., None]) % 100_003
    return (base + np.arange(WIDTH)).astype(np.float32)


def large(lane: Any, number: Any) -> np.ndarray[Any, Any]:
    return (np.asarray(number)[..., None] * 31 + np.asarray(lane)[..., None] + np.arange(100)).astype(np.uint32)


def checksums(obs: Any, number: Any, lane: Any, reward: Any, wide: Any) -> np.ndarray[Any, Any]:
    """A sum over all fields in which every value has a weight of its own."""
    total = (obs.astype(np.uint64) * (2 * np.arange(WIDTH, dtype=np.uint64) + 3)).sum(-1)
    total += (wide.astype(np.uint64) * (2 * np.arange(100, dtype=np.uint64) + 101)).sum(-1)
    total += np.asarray(number).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    total += np.asarray(lane).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    return total + np.asarray(reward).astype(np.uint64)


def block(lane: int, first: int, count: int) -> dict[str, Any]:
    """Steps ``first`` to ``first + count`` of a lane. Episodes end at multiples of EPISODE, by turns in both ways."""
    number = np.arange(first, first + count)
    obs, wide = observations(lane, number), large(lane, number)
    reward = (number % 1000).astype(np.float32)
    ends = number % EPISODE == EPISODE - 1
    lanes = np.full(count, lane, np.int32)
    return {
        "obs": obs,
        "number": number,
        "lane": lanes,
        "large": wide,
        "reward": reward,
        "checksum": checksums(obs, number, lanes, reward, wide),
        "terminated": ends & (number % 2 == 0),
        "truncated": ends & (number % 2 == 1),
        "final_obs": observations(lane, number + 1),
        "final_number": number + 1,
    }


def check(batch: Any) -> None:
    """Every row of a batch of transitions is whole and is followed by the right one."""
    lane, number = batch.lane, batch.number
    np.testing.assert_array_equal(lane, batch.lanes)
    expected = checksums(batch.obs, number, lane, batch.reward, batch.large)
    np.testing.assert_array_equal(batch.checksum, expected)
    np.testing.assert_array_equal(batch.obs, observations(lane, number))
    np.testing.assert_array_equal(batch.large, large(lane, number))
    np.testing.assert_array_equal(batch.next_number, number + 1)
    np.testing.assert_array_equal(batch.next_obs, observations(lane, number + 1))
    ends = number % EPISODE == EPISODE - 1
    cut = batch.truncated & ~ends  # by a killed writer's successor
    assert cut.sum() <= 1
    np.testing.assert_array_equal(batch.terminated, ends & (number % 2 == 0))


def check_all(memory: rc.Memory, least: int = 0) -> list[int]:
    """Every row there is is whole, and none is missing within a lane; returns the newest numbers."""
    newest = []
    for lane in range(memory.lanes):
        numbers = []
        episodes = memory.episodes
        mine = episodes.lane == lane
        rows = [
            np.arange(max(start, 0), start + length)
            for start, length in zip(episodes.start[mine], episodes.length[mine], strict=True)
        ]
        for serials in np.array_split(np.concatenate(rows) if rows else np.empty(0, np.int64), 64):
            known = [serial for serial in serials if readable(memory, lane, int(serial))]
            if known:
                batch = memory.read(np.full(len(known), lane), known)
                check(batch)
                numbers += batch.number.tolist()
        if numbers:
            np.testing.assert_array_equal(np.diff(numbers), 1)
        assert len(numbers) >= least
        newest.append(numbers[-1] if numbers else -1)
    return newest


def readable(memory: rc.Memory, lane: int, serial: int) -> bool:
    try:
        memory.read([lane], [serial])
    except rc.errors.StaleRows:
        return False
    return True


def start_actor(name: str, lane: int, first: int, count: int, size: int) -> subprocess.Popen[bytes]:
    """A process that appends numbers ``first`` to ``first + count`` to a lane, ``size`` at a time."""
    command = [sys.executable, __file__, name, *map(str, (lane, first, count, size))]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def main() -> None:
    name, lane, first, count, size = sys.argv[1], *map(int, sys.argv[2:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with rc.Writer(name, lane, timeout=30) as writer:
        print("ready", flush=True)
        for at in range(first, first + count, size):
            steps = block(lane, at, min(size, first + count - at))
            if size == 1:
                writer.append(**{key: value[0] for key, value in steps.items()})
            else:
                writer.extend(**steps)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
