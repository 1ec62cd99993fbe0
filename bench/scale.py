"""Ten to ten thousand actors, one to 256 shards, on paper: a simulation by discrete events with costs measured here.

python bench/scale.py --report docs/bench

First it measures what a call costs the shard and the learner (processor time on this machine), then it plays clusters
in which every shard and the learner have a core of their own. What is not played: networks that lose packets,
Ray's own scheduler, and nodes that fail.
"""

from __future__ import annotations

import argparse
import heapq
import os
import platform
import random
import statistics
import time
from collections import deque
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import relive as rl

PAGE = """# Shards on paper

Written by `python bench/scale.py` on {day}: costs measured on {machine} with Ray {ray}, the rest a simulation by
discrete events of {seconds:g} s. Every actor makes {rate:g} steps a second in blocks of {block}, {row} bytes a row; the
learner draws batches of 256, sixteen a call, two calls ahead, and computes {compute:.1f} ms a batch; every shard has
one core and a link of {gbit:g} Gbit/s, and so has the learner.

| cost | ms |
|---|---|
| shard, a block of {block} rows | {append:.2f} |
| shard, a call of sixteen batches | {sample:.2f} |
| learner, a call of sixteen batches, besides learning | {take:.2f} |
| learner, an exchange with an actor | {exchange:.2f} |

![throughput, waiting and staleness by actors and shards](../images/scale.png)

{table}

*Inserted*: steps a second that shards took, of those that actors could make. *Busy*: the busiest shard. *Waited*: from
sending a block to its acknowledgement, median. *Totals*: age of what the learner knows of a shard's total when it
chooses one. *Policy*: age of an actor's weights, from exchanges that cost the learner at most a tenth of its core.
*GB*: of rows a shard holds for the newest million steps of the whole cluster at least, or a minute of its actors.
"""

BATCH_BYTES = 48_640
ACTORS, SHARDS = (10, 100, 1_000, 10_000), (1, 4, 16, 64, 256)


@dataclass(frozen=True)
class Costs:
    """Seconds of processor time."""

    append: float
    sample: float
    take: float
    exchange: float


def processor_time(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def measured(seconds: float, block: int) -> Costs:
    """What calls cost on this machine."""
    import ray

    rl.distributed.connect("local", num_cpus=4, object_store_memory=500_000_000)
    rng = np.random.default_rng(0)
    schema = rl.Schema(obs=rl.Field((17,)), action=rl.Field((6,)))
    cluster = rl.distributed.Shards(schema, 400_000, lanes=1, sampler=rl.Prioritized())
    pid = cluster.state()["shards"][0]["pid"]
    ends = np.zeros(block, bool)
    rows: dict[str, Any] = {
        "obs": rng.standard_normal((block, 17), np.float32),
        "action": rng.standard_normal((block, 6), np.float32),
        "reward": np.ones(block, np.float32),
        "terminated": ends,
        "truncated": ends,
    }
    writer = cluster.writer(0, block=block)
    for _ in range(500):
        writer.extend(**rows)
    begun, count, until = processor_time(pid), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        writer.extend(**rows)
        count += 1
    writer.flush()
    append = (processor_time(pid) - begun) / count
    with cluster.learner(256, group=16) as learner:
        errors = rng.random(256)
        for _ in range(64):
            learner.update_priorities(next(learner), errors)
        begun, own, count, until = processor_time(pid), time.process_time(), 0, time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(16):
                learner.update_priorities(next(learner), errors)
            count += 1
        sample, take = (processor_time(pid) - begun) / count, (time.process_time() - own) / count
    handle = cluster.handles[0]
    own, count, until = time.process_time(), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        ray.get(handle.look.remote({"inserted": {}, "sampled": {}, "held": {}, "newest": 0}))
        count += 1
    exchange = (time.process_time() - own) / count
    cluster.close()
    ray.shutdown()
    return Costs(append, sample, take, exchange)


class Server:
    """A shard's core: calls wait for those before them."""

    def __init__(self) -> None:
        self.free, self.busy, self.total = 0.0, 0.0, 0.0

    def serve(self, now: float, cost: float) -> float:
        begin = max(now, self.free)
        self.free = begin + cost
        self.busy += cost
        return self.free


@dataclass
class Played:
    inserted: float
    batches: float
    busiest: float
    waited: float
    totals: float
    policy: float
    gigabytes: float


def play(actors: int, shards: int, costs: Costs, asked: argparse.Namespace) -> Played:
    """One cluster for a while."""
    dice = random.Random(actors * 1000 + shards)
    row, block, rate = asked.row, asked.block, asked.rate
    wire = asked.gbit * 1e9 / 8
    servers = [Server() for _ in range(shards)]
    link = Server()
    known = [0.0] * shards
    waits: list[float] = []
    ages: list[float] = []
    pending = {actor: deque[float]() for actor in range(actors)}
    inserted = batches = 0
    events: list[tuple[float, int, str, int]] = []
    number = 0

    def push(when: float, what: str, who: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (when, number, what, who))

    for actor in range(actors):
        push(dice.uniform(0, block / rate), "block", actor)
    push(0.01, "draw", 0)
    push(0.01, "draw", 0)
    learner_free = 0.0
    while events:
        now, _, what, who = heapq.heappop(events)
        if now > asked.seconds:
            break
        if what == "block":
            line = pending[who]
            while line and line[0] <= now:
                line.popleft()
            if len(line) >= 8:  # too much is on its way: the actor waits
                push(line[0], "block", who)
                continue
            server = servers[who % shards]
            done = server.serve(now + block * row / wire, costs.append)
            server.total += block
            waits.append(done - now)
            line.append(done)
            inserted += block if done <= asked.seconds else 0
            push(now + block / rate, "block", who)
        elif what == "draw":
            totals = [max(server.total, 1.0) for server in servers]
            shard = dice.choices(range(shards), totals)[0]
            ages.append(max(now - known[shard], 0.0))
            done = servers[shard].serve(now, costs.sample)
            known[shard] = done
            arrived = link.serve(done, 16 * BATCH_BYTES / wire)
            learner_free = max(learner_free, arrived) + costs.take + 16 * asked.compute / 1e3
            batches += 16 if learner_free <= asked.seconds else 0
            push(learner_free, "draw", 0)
    policy = max(0.03, actors * costs.exchange / 0.1)
    held = max(1_000_000, 60 * inserted / asked.seconds)
    return Played(
        inserted / asked.seconds,
        batches / asked.seconds,
        max(server.busy for server in servers) / asked.seconds,
        statistics.median(waits),
        statistics.mean(min(age, 0.1) if shards > 1 else age for age in ages),
        policy,
        held / shards * row / 1e9,
    )


def draw(found: dict[tuple[int, int], Played], asked: argparse.Namespace, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = (
        ("steps inserted a second", lambda played: played.inserted),
        ("ms from a block to its acknowledgement", lambda played: played.waited * 1e3),
        ("ms that known totals are old", lambda played: played.totals * 1e3),
    )
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0.05, 0.85, len(SHARDS)))
    for axis, (title, value) in zip(axes, panels, strict=True):
        for shards, colour in zip(SHARDS, colours, strict=True):
            points = [value(found[actors, shards]) for actors in ACTORS]
            label = f"{shards} shard{'s' if shards > 1 else ''}"
            axis.plot(ACTORS, points, marker="o", color=colour, label=label)
        axis.set(xscale="log", yscale="log", xlabel="actors", title=title)
        axis.grid(alpha=0.3)
    axes[0].plot(ACTORS, [actors * asked.rate for actors in ACTORS], "k--", lw=1, label="all that actors make")
    axes[0].legend(fontsize=8)
    figure.suptitle(f"Simulated: {asked.rate:g} steps a second an actor, blocks of {asked.block}, costs measured")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=20.0, help="that are played")
    parser.add_argument("--measure", type=float, default=4.0, help="seconds of each measurement")
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--block", type=int, default=100)
    parser.add_argument("--row", type=int, default=196)
    parser.add_argument("--gbit", type=float, default=10.0)
    parser.add_argument("--compute", type=float, default=1.0, help="ms of learning for a batch")
    asked = parser.parse_args()
    costs = measured(asked.measure, asked.block)
    print(costs, flush=True)
    found = {(actors, shards): play(actors, shards, costs, asked) for actors in ACTORS for shards in SHARDS}
    lines = [
        "| actors | shards | inserted | batches/s | busy | waited ms | totals ms | policy s | GB a shard |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (actors, shards), played in found.items():
        share = played.inserted / (actors * asked.rate)
        lines.append(
            f"| {actors:,} | {shards} | {played.inserted:,.0f} ({min(share, 1):.0%}) | {played.batches:,.0f} | "
            f"{min(played.busiest, 1):.0%} | {played.waited * 1e3:,.1f} | {played.totals * 1e3:,.1f} | "
            f"{played.policy:,.2f} | {played.gigabytes:.2f} |"
        )
        print(lines[-1], flush=True)
    if asked.report:
        import ray

        about = {**vars(asked), "day": date.today(), "machine": platform.machine(), "ray": ray.__version__}
        about |= {name: value * 1e3 for name, value in vars(costs).items()}
        (asked.report / "scale.md").write_text(PAGE.format(table="\n".join(lines), **about))
        draw(found, asked, asked.report.parent / "images" / "scale.png")


if __name__ == "__main__":
    main()
