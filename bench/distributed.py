"""Batches and inserts a second: shards on Ray beside one process, raw Ray calls, and what others offer.

python bench/distributed.py --report docs/bench [--peers .venv-peers/bin/python]

All take turns in one run; medians over the rounds, by wall time, since several processes work for one figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import ray

import relive as rl

PAGE = """# Shards on Ray: speed

Written by `python bench/distributed.py` on {day}, {machine}, Python {python}, Ray {ray}. {rounds} rounds, interleaved,
medians, wall time, all processes on the same {cores} cores; the machine is shared: read the ratios.

## Batches a second

Prioritised, errors sent back for every batch. Vectors: 256 transitions of 17 and 6 numbers, {bytes:,} bytes a batch, of
a million rows. Images: 32 transitions of 84 x 84 x 4 bytes, {image_bytes:,} bytes a batch, of 20,000 rows. In brackets:
how many times the batches of raw Ray calls (an actor that returns so many bytes, one batch a call).

{batches}

## Inserted steps a second

One writer with a lane in every shard, eight blocks unacknowledged, by Ray; beside `Memory.extend` in one process. A
block has so many steps of each lane, and is one call to each shard. Writer and shards share the {cores} cores, and a
call costs the same whichever shard it goes to: more shards hold more rows, and do not take them faster on one machine.

{inserts}

## Totals that are not quite up to date

A shard's total comes with each of its answers, and is asked for after a tenth of a second without one. Meanwhile
draws go by what was known: how far the share of a shard was off, on average and at most, relative to its share by true
totals, of four shards with {rows:,} rows in all, while a writer inserts 4,000 steps a second and every batch of 256
changes the priorities it was drawn by.

{staleness}
"""

SCHEMA = rl.Schema(obs=rl.Field((17,)), action=rl.Field((6,)))
IMAGES = rl.Schema(obs=rl.Field((84, 84), "uint8"), action=rl.Field((), "uint8"))
PARTS: dict[str, Any] = {"sampler": rl.Prioritized(0.6, beta=0.4), "window": rl.Transition()}
RNG = np.random.default_rng(0)


def block(count: int) -> dict[str, Any]:
    ends = np.zeros(count, bool)
    values = {
        "obs": RNG.standard_normal((count, 17), np.float32),
        "action": RNG.standard_normal((count, 6), np.float32),
    }
    return {**values, "reward": np.ones(count, np.float32), "terminated": ends, "truncated": ends}


def pictures(count: int) -> dict[str, Any]:
    ends = np.zeros(count, bool)
    values = {"obs": RNG.integers(0, 255, (count, 84, 84), np.uint8), "action": np.zeros(count, np.uint8)}
    return {**values, "reward": np.ones(count, np.float32), "terminated": ends, "truncated": ends}


def fill(extend: Callable[..., None], rows: int, lanes: int, made: Callable[[int], dict[str, Any]], size: int) -> None:
    one = made(size)
    for lane in range(lanes):
        for _ in range(rows // lanes // size):
            extend(lanes=lane, **one)


def local(schema: rl.Schema, rows: int, made: Any, size: int, **parts: Any) -> rl.Memory:
    memory = rl.Memory(schema, rows, 4, seed=0, **{**PARTS, **parts})
    fill(memory.extend, rows, 4, made, size)
    return memory


def shards(schema: rl.Schema, rows: int, count: int, made: Any, size: int, **parts: Any) -> Any:
    cluster = rl.distributed.Shards(schema, rows, shards=count, lanes=4, **{**PARTS, **parts})
    with cluster.writer(block=size) as writer:
        fill(writer.extend, rows, 4, made, size)
    return cluster


# ---- batches ---------------------------------------------------------------------------------------------------------


def from_memory(memory: rl.Memory, size: int) -> Callable[[float], float]:
    errors = RNG.random(size)

    def measure(seconds: float) -> float:
        count, until, begun = 0, time.perf_counter() + seconds, time.perf_counter()
        while time.perf_counter() < until:
            batch = memory.sample(size)
            memory.update_priorities(batch, errors)
            count += 1
        return count / (time.perf_counter() - begun)

    return measure


def from_shards(cluster: Any, size: int, group: int, ahead: int = 2) -> Callable[[float], float]:
    learner, errors = cluster.learner(size, group=group, ahead=ahead), RNG.random(size)

    def measure(seconds: float) -> float:
        for _ in range(2 * group):
            learner.update_priorities(next(learner), errors)
        count, until, begun = 0, time.perf_counter() + seconds, time.perf_counter()
        while time.perf_counter() < until:
            learner.update_priorities(next(learner), errors)
            count += 1
        return count / (time.perf_counter() - begun)

    return measure


@ray.remote(num_cpus=0)
class Raw:
    """What Ray itself costs: bytes of a batch, as they are."""

    def __init__(self, size: int) -> None:
        self._data = b"x" * size

    def get(self) -> bytes:
        return self._data


def from_raw(size: int) -> Callable[[float], float]:
    actor = Raw.remote(size)

    def measure(seconds: float) -> float:
        calls = [actor.get.remote() for _ in range(2)]
        count, until, begun = 0, time.perf_counter() + seconds, time.perf_counter()
        while time.perf_counter() < until:
            ray.get(calls.pop(0))
            calls.append(actor.get.remote())
            count += 1
        return count / (time.perf_counter() - begun)

    return measure


def beside_writer(measure: Callable[[float], float], append: Callable[[], None]) -> Callable[[float], float]:
    """The same while a thread appends a step every millisecond."""

    def paced(seconds: float) -> float:
        stop = threading.Event()

        def write() -> None:
            while not stop.wait(1e-3):
                append()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            return measure(seconds)
        finally:
            stop.set()
            thread.join()

    return paced


# ---- inserts ---------------------------------------------------------------------------------------------------------


def into_memory(size: int) -> Callable[[float], float]:
    memory, one = rl.Memory(SCHEMA, 1_000_000, 1, seed=0, **PARTS), block(size)
    return inserted(lambda: memory.extend(lanes=0, **one), size)


def into_shards(size: int, count: int = 1, **parts: Any) -> Callable[[float], float]:
    cluster = rl.distributed.Shards(SCHEMA, 1_000_000, shards=count, lanes=count, **{**PARTS, **parts})
    writer = cluster.writer(block=size, unacked=8)
    one = {key: value[:, None].repeat(count, 1) for key, value in block(size).items()}
    KEPT.append(cluster)
    return inserted(lambda: writer.extend(**one), size * count, writer.flush)


def inserted(
    append: Callable[[], None], size: int, flush: Callable[[], None] = lambda: None
) -> Callable[[float], float]:
    def measure(seconds: float) -> float:
        count, until, begun = 0, time.perf_counter() + seconds, time.perf_counter()
        while time.perf_counter() < until:
            append()
            count += size
        flush()
        return count / (time.perf_counter() - begun)

    return measure


KEPT: list[Any] = []


# ---- staleness -------------------------------------------------------------------------------------------------------


def staleness(rows: int, lanes: Any, batches: int) -> tuple[float, float]:
    """How far off shares were: the learner's totals against true ones, at every 16th batch."""
    cluster = shards(SCHEMA, rows, 4, block, 500)
    stop = threading.Event()

    def write() -> None:
        with cluster.writer(lanes, block=50) as writer:
            one = {key: value.repeat(len(writer.lanes), 0) for key, value in block(1).items()}
            while not stop.is_set():
                writer.append(**one)
                time.sleep(2e-4)

    thread = threading.Thread(target=write)
    thread.start()
    off = []
    try:
        with cluster.learner(256, group=16) as learner:
            for number in range(batches):
                learner.update_priorities(next(learner), RNG.random(256))
                if number % 16 == 15:
                    known = np.array(learner.totals)
                    true = np.array([shard["total"] for shard in cluster.state()["shards"]])
                    off.append(np.abs(known / known.sum() / (true / true.sum()) - 1).max())
    finally:
        stop.set()
        thread.join()
        cluster.close()
    return float(np.mean(off)), float(np.max(off))


# ---- all of it -------------------------------------------------------------------------------------------------------


def rounds_of(measures: dict[str, Callable[[float], float]], rounds: int, seconds: float) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure(seconds))
    return {name: statistics.median(values) for name, values in found.items()}


def batch_bytes(memory: rl.Memory, size: int) -> int:
    return sum(array.nbytes for array in memory.sample(size).values())


def peers_of(python: str, seconds: float, rounds: int) -> dict[str, float]:
    """What other libraries reach, in an environment of their own."""
    script = Path(__file__).with_name("distributed_peers.py")
    done = subprocess.run([python, str(script), str(seconds), str(rounds)], capture_output=True, text=True)
    for line in done.stderr.splitlines():
        if line.startswith("left out"):
            print(line, flush=True)
    return dict(json.loads(done.stdout.splitlines()[-1])) if done.stdout.strip() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--peers", nargs="*", default=[], metavar="PYTHON", help="interpreters that have other libraries"
    )
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    rounds, seconds = (3, 0.5) if asked.quick else (5, 1.0)
    rows, frames = (100_000, 4_000) if asked.quick else (1_000_000, 20_000)
    rl.distributed.connect("local", num_cpus=4, object_store_memory=1_000_000_000)

    memory = local(SCHEMA, rows, block, 500)
    size = batch_bytes(memory, 256)
    paced = local(SCHEMA, rows, block, 500)
    step = block(1)
    shared = shards(SCHEMA, rows, 1, block, 500, storage="shared")
    write = shared.writer(block=16)
    four = {key: value.repeat(4, 0) for key, value in step.items()}
    measures = {
        "one process": from_memory(memory, 256),
        "raw Ray calls": from_raw(size),
        "one process, beside a paced writer": beside_writer(from_memory(paced, 256), lambda: paced.append(**four)),
        "shared memory, beside a paced writer": beside_writer(
            from_shards(shared, 256, 16), lambda: write.append(**four)
        ),
    }
    clusters = {count: shards(SCHEMA, rows, count, block, 500) for count in (1, 2, 4)}
    for count, cluster in clusters.items():
        for group in (1, 4, 16, 64) if count == 1 else (16,):
            name = f"{count} shard{'s' if count > 1 else ''}, {group} a call"
            measures[name] = from_shards(cluster, 256, group)
    vectors = rounds_of(measures, rounds, seconds)
    for cluster in (*clusters.values(), shared):
        cluster.close()

    stack = {"stack": {"obs": 4}}
    images = local(IMAGES, frames, pictures, 500, **stack)
    image_bytes = batch_bytes(images, 32)
    cluster = shards(IMAGES, frames, 1, pictures, 500, **stack)
    seen = rounds_of(
        {
            "one process": from_memory(images, 32),
            "raw Ray calls": from_raw(image_bytes),
            "1 shard, 1 a call": from_shards(cluster, 32, 1),
            "1 shard, 4 a call": from_shards(cluster, 32, 4),
            "1 shard, 8 a call": from_shards(cluster, 32, 8),
            "1 shard, 16 a call": from_shards(cluster, 32, 16),
        },
        rounds,
        seconds,
    )
    cluster.close()
    for python in asked.peers:
        vectors |= peers_of(python, seconds, rounds)
    lines = ["| | vectors | images |", "|---|---|---|"]
    for name in dict.fromkeys((*vectors, *seen)):
        cells = []
        for found in (vectors, seen):
            cells.append(f"{found[name]:,.0f} ({found[name] / found['raw Ray calls']:.2g})" if name in found else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)

    sizes = (1, 16, 100, 1000)
    inserts: dict[str, Callable[[float], float]] = {}
    kinds: dict[str, Callable[[int], Callable[[float], float]]] = {
        "one process": into_memory,
        "1 shard": into_shards,
        "2 shards": lambda size: into_shards(size, 2),
        "4 shards": lambda size: into_shards(size, 4),
        "1 shard, journal": lambda size: into_shards(
            size, durability="journal", folder=Path("runs") / f"bench-journal-{os.getpid()}-{size}"
        ),
    }
    for kind, made in kinds.items():
        inserts |= {f"{kind} {size}": made(size) for size in sizes}
    got = rounds_of(inserts, rounds, seconds)
    names = [f"blocks of {size:,}" for size in sizes]
    table = [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(sizes)]
    for kind in kinds:
        cells = [f"{got[f'{kind} {size}']:,.0f}" for size in sizes]
        table.append(f"| {kind} | {' | '.join(cells)} |")
        print(table[-1], flush=True)
    for kept in KEPT:
        kept.close()
    subprocess.run(["sh", "-c", f"rm -rf runs/bench-journal-{os.getpid()}-*"], check=False)

    stale = ["| writer | off on average | at most |", "|---|---|---|"]
    for name, lanes in (("all four shards", None), ("one of four", [0])):
        mean, most = staleness(rows, lanes, 160 if asked.quick else 1600)
        stale.append(f"| {name} | {mean:.2%} | {most:.2%} |")
        print(stale[-1], flush=True)
    if asked.report:
        page = PAGE.format(
            day=date.today(), machine=platform.machine(), python=platform.python_version(), ray=ray.__version__,
            rounds=rounds, rows=rows, cores=os.cpu_count(), bytes=size, image_bytes=image_bytes,
            batches="\n".join(lines),
            inserts="\n".join(table), staleness="\n".join(stale),
        )  # fmt: skip
        (asked.report / "distributed.md").write_text(page)


if __name__ == "__main__":
    sys.exit(main())
