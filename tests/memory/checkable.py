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
import numpy.testing  # not when it is first used: a child of a process that is importing would wait for ever

import relive as rl
from waiting import PATIENCE

WIDTH = 24
EPISODE = 37

SCHEMA = rl.Schema(
    obs=rl.Field((WIDTH,)),
    number=rl.Field((), "int64", role="observed"),
    lane=rl.Field((), "int32"),
    checksum=rl.Field((), "uint64"),
    large=rl.Field((100,), "uint32"),  # a panel of its own
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
    np.testing.assert_array_equal(batch.terminated, ends & (number % 2 == 0))
    assert batch.truncated[ends & (number % 2 == 1)].all()


def check_batch(batch: Any, window: Any) -> None:
    """Every row of a batch, read through any window, is whole and follows the one before it."""
    if isinstance(window, rl.Transition):
        check(batch)
        return
    if isinstance(window, rl.NStep):
        lane, first, last = batch.lane, batch.number, batch.next_number
        np.testing.assert_array_equal(lane, batch.lanes)
        np.testing.assert_array_equal(batch.obs, observations(lane, first))
        np.testing.assert_array_equal(batch.next_obs, observations(lane, last))
        assert ((last > first) & (last - first <= window.n)).all()
        steps = np.where(batch.terminated, np.inf, last - first)
        np.testing.assert_allclose(batch.discount, window.gamma**steps, rtol=1e-5)
        return
    # Real steps: those to train on, and burn-in, of which padding differs by its checksum.
    real = batch.mask | (batch.checksum != 0)
    steps, lane = batch.mask.shape[1], np.broadcast_to(batch.lanes[:, None], batch.mask.shape)
    number, obs = batch.number[:, :steps], batch.obs[:, :steps]
    expected = checksums(obs, number, lane, batch.reward, batch.large)
    np.testing.assert_array_equal(batch.checksum[real], expected[real])
    np.testing.assert_array_equal(obs[real], observations(lane, number)[real])
    if "next_number" in batch:
        after, seen = batch.next_number, batch.next_obs
    else:
        after, seen = batch.number[:, 1:], batch.obs[:, 1:]
    np.testing.assert_array_equal(after[real], number[real] + 1)
    np.testing.assert_array_equal(seen[real], observations(lane, number + 1)[real])
    np.testing.assert_array_equal(batch.mask.sum(1), batch.lengths)


def check_lanes(memory: rl.Memory, cuts: int = 1 << 30) -> list[list[int]]:
    """Every row that can be drawn is whole, and none is missing but after episodes' ends; returns numbers by lane.

    Args:
        cuts: At how many ends of a lane rows may be missing, because its writer was killed there.
    """
    lanes: list[dict[int, tuple[int, bool]]] = [{} for _ in range(memory.lanes)]
    for batch in memory.epoch(4096):
        check(batch)
        ended = batch.truncated | batch.terminated
        for lane, serial, number, end in zip(batch.lanes, batch.serials, batch.number, ended, strict=True):
            lanes[lane][int(serial)] = (int(number), bool(end))
    found = []
    for rows in lanes:
        ordered = [rows[serial] for serial in sorted(rows)]
        numbers = np.array([number for number, _ in ordered], np.int64)
        ends = np.array([end for _, end in ordered], bool)
        steps = np.diff(numbers)
        assert (steps >= 1).all()
        gaps = steps > 1
        assert not (gaps & ~ends[:-1]).any()
        assert gaps.sum() <= cuts
        found.append(numbers.tolist())
    return found


def newest(memory: rl.Memory) -> list[int]:
    """By lane, the number of the newest row that can be drawn; -1 if there is none."""
    return [max(numbers, default=-1) for numbers in check_lanes(memory)]


def start_actor(name: str, lane: int, first: int, count: int, size: int) -> subprocess.Popen[bytes]:
    """A process that appends numbers ``first`` to ``first + count`` to a lane, ``size`` at a time."""
    command = [sys.executable, __file__, name, *map(str, (lane, first, count, size))]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def main() -> None:
    name, lane, first, count, size = sys.argv[1], *map(int, sys.argv[2:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with rl.Writer(name, lane, timeout=PATIENCE) as writer:
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
