"""Rows a second that 1, 2 and 4 processes get into one memory: shared storage, a queue, cpprb's multi-process buffer.

Rows are those of the vectors workload (obs 17, act 6, float32). Each way runs as its users run it: a ``Writer`` a
process; processes that put steps on a ``multiprocessing.Queue`` and one that takes them off into a plain NumPy buffer;
processes that add to cpprb's ``MPReplayBuffer``. The clock runs from a common start until the last row is in. The queue
and cpprb store a next observation with every step. Ways take turns, and the median round counts.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import relive as rl

SCHEMA = rl.Schema(obs=rl.Field((17,)), action=rl.Field((6,)))
CONTEXT = mp.get_context("fork")


def step(size: int) -> dict[str, Any]:
    shape = (size,) if size > 1 else ()
    return {
        "obs": np.ones((*shape, 17), np.float32),
        "action": np.ones((*shape, 6), np.float32),
        "reward": np.ones(shape, np.float32),
        "terminated": np.zeros(shape, bool),
        "truncated": np.zeros(shape, bool),
    }


def classic(size: int) -> dict[str, Any]:
    shape = (size,) if size > 1 else ()
    return {
        "obs": np.ones((*shape, 17), np.float32),
        "act": np.ones((*shape, 6), np.float32),
        "rew": np.ones(shape, np.float32),
        "done": np.zeros(shape, np.float32),
        "next_obs": np.ones((*shape, 17), np.float32),
    }


def timed(
    work: Callable[[int, Callable[[], None]], None], writers: int, drain: Callable[[], None] | None = None
) -> float:
    """Seconds from the moment that all processes are ready until all are done."""
    barrier = CONTEXT.Barrier(writers + 1)
    processes = [CONTEXT.Process(target=work, args=(number, barrier.wait)) for number in range(writers)]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    if drain is not None:
        drain()
    for process in processes:
        process.join()
    return time.perf_counter() - start


def shared(writers: int, rows: int, size: int) -> float:
    name = f"bench-{os.getpid()}"
    with rl.Memory(SCHEMA, writers * 100_000, writers, storage=rl.Shared(name), seed=0) as memory:

        def work(lane: int, ready: Callable[[], None]) -> None:
            with rl.Writer(name, lane) as writer:
                one = step(size)
                write = writer.append if size == 1 else writer.extend
                ready()
                for _ in range(rows // size):
                    write(**one)

        seconds = timed(work, writers)
        assert memory.inspect.overwrites or len(memory) == writers * rows
    return seconds


def queue(writers: int, rows: int, size: int) -> float:
    channel: Any = CONTEXT.Queue(1000)
    one = classic(size)
    buffer = {
        name: np.empty((writers * 100_000, *np.shape(value)[size > 1 :]), np.float32) for name, value in one.items()
    }

    def work(_: int, ready: Callable[[], None]) -> None:
        ready()
        for _ in range(rows // size):
            channel.put(one)

    def drain() -> None:
        at = 0
        for _ in range(writers * (rows // size)):
            for name, value in channel.get().items():
                buffer[name][at : at + size] = value
            at = (at + size) % (writers * 100_000 - size)

    return timed(work, writers, drain)


def cpprb_buffer(writers: int, rows: int, size: int) -> float:
    from cpprb import MPReplayBuffer

    fields = {"obs": {"shape": 17}, "act": {"shape": 6}, "rew": {}, "done": {}, "next_obs": {"shape": 17}}
    buffer = MPReplayBuffer(writers * 100_000, fields, ctx=CONTEXT)

    def work(_: int, ready: Callable[[], None]) -> None:
        one = classic(size)
        ready()
        for _ in range(rows // size):
            buffer.add(**one)

    return timed(work, writers)


WAYS = {"relive": shared, "Queue": queue, "cpprb MPReplayBuffer": cpprb_buffer}


def run(*, quick: bool) -> str:
    """The table, as Markdown."""
    rounds = 3 if quick else 7
    lines = [
        "| thousand rows a second | " + " | ".join(WAYS) + " | Queue / ours | cpprb / ours |",
        "|---" * (len(WAYS) + 3) + "|",
    ]
    for size, rows in ((1, 10_000 if quick else 40_000), (64, 64_000 if quick else 320_000)):
        for writers in (1, 2, 4):
            rates: dict[str, list[float]] = {name: [] for name in WAYS}
            for _ in range(rounds):
                for name, way in WAYS.items():
                    rates[name].append(writers * rows / way(writers, rows, size) / 1e3)
            found = {name: median(rate) for name, rate in rates.items()}
            ours = found["relive"]
            cells = [f"{rate:,.0f}" for rate in found.values()]
            cells += [f"{found[name] / ours:.3f}" for name in list(WAYS)[1:]]
            how = "one row a call" if size == 1 else f"{size} rows a call"
            lines.append(f"| {writers} process{'es' if writers > 1 else ''}, {how} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(run(quick=parser.parse_args().quick))
