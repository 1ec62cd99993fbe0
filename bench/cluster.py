"""MADDPG on simple_spread by a cluster on this machine: its score beside one process's, and while things are killed.

python bench/cluster.py --report docs/bench --seeds 1 2 3     (minutes a seed; finished runs are not trained again)
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import relive as rl
from relive import training
from relive.agents.maddpg import MADDPGConfig
from relive.training.callbacks import RunState
from relive.training.checkpoint import exists, load_checkpoint
from relive.training.curves import bootstrap_ci
from relive.training.loggers import read_metrics
from relive.training.replay import load_run

PAGE = """# Training on a cluster

Written by `python bench/cluster.py --seeds {seeds}` on {day}: MADDPG on simple_spread with continuous actions,
{steps:,} steps, {actors} actors and {shards} shards on Ray, all on the same {cores} cores; 1,000 episodes a seed at the
end, without exploration. Interquartile mean over the seeds with its 95% interval (bootstrap), then each seed. "One
process" is `--actors 0` with the same settings and seeds. "Killed" has an actor and a shard killed every {every} s in
turn, with journals.

{table}

The command, and `relive eval` of its folder: `relive train maddpg simple_spread --steps {steps} --capacity 500000
--option continuous_actions=true --cluster local --actors {actors} --shards {shards}`.
"""

CONFIG = MADDPGConfig(capacity=500_000)
FOLDER = Path("runs/cluster")


class Killer:
    """A callback that kills an actor, then a shard, and so on."""

    def __init__(self, every: float) -> None:
        self._every, self._last, self.killed = every, time.monotonic(), 0
        self._random = random.Random(0)

    def on_step(self, state: RunState) -> None:
        if time.monotonic() - self._last < self._every:
            return
        self._last = time.monotonic()
        shards = [shard["pid"] for shard in state.memory.shards.state()["shards"] if shard is not None]  # type: ignore[union-attr]
        if not shards:
            return
        pids = shards if self.killed % 2 else actors_beside(shards[0])
        os.kill(self._random.choice(pids), signal.SIGKILL)
        self.killed += 1


def actors_beside(shard: int) -> list[int]:
    """Processes of actors that the same part of Ray started as a shard."""
    parent = Path(f"/proc/{shard}/stat").read_text().rpartition(")")[2].split()[1]
    found = subprocess.run(["pgrep", "-P", parent, "-f", "ray::_RemoteActor"], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def train(kind: str, seed: int, asked: argparse.Namespace) -> dict[str, float]:
    folder = FOLDER / kind / f"seed_{seed}"
    how: dict[str, Any] = {"env_options": {"continuous_actions": True}, "video": False, "seed": seed, "save_every": 0}
    if kind != "one process":
        how |= {"cluster": "local", "actors": asked.actors, "shards": asked.shards}
    begun, killer = time.monotonic(), Killer(asked.every)
    if not exists(folder) or load_checkpoint(folder)["steps"] < asked.steps:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        callbacks = [killer] if kind == "killed" else []
        done = training.train(CONFIG, "simple_spread", folder=folder, steps=asked.steps, callbacks=callbacks, **how)
        if done.interrupted:
            raise SystemExit("stopped")
        print(f"{kind}, seed {seed}: {time.monotonic() - begun:.0f} s, {killer.killed} killed", flush=True)
    last = read_metrics(folder)[-1]
    found = load_run(folder).evaluate(1000, seed=10_000 + seed)
    lost = {name: last.get(f"cluster/lost_{name}", 0.0) for name in ("actors", "shards", "rows")}
    return {"return": found["return"], **lost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--kinds", nargs="+", default=["one process", "cluster", "killed"])
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between kills")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rl.distributed.connect("local", num_cpus=8, object_store_memory=500_000_000)
    lines = ["| | return an agent | 95% | seeds | actors, shards lost | rows lost |", "|---|---|---|---|---|---|"]
    for kind in asked.kinds:
        found = [train(kind, seed, asked) for seed in asked.seeds]
        values = [each["return"] for each in found]
        middle, low, high = (float(part[0]) for part in bootstrap_ci(np.array(values)[:, None]))
        lost = ", ".join(f"{each['actors']:.0f} + {each['shards']:.0f}" for each in found)
        rows = ", ".join(f"{each['rows']:.0f}" for each in found)
        shown = ", ".join(f"{value:.2f}" for value in values)
        lines.append(f"| {kind} | {middle:.2f} | {low:.2f} to {high:.2f} | {shown} | {lost} | {rows} |")
        print(lines[-1], flush=True)
    if asked.report:
        about = {**vars(asked), "seeds": " ".join(map(str, asked.seeds)), "day": date.today(), "cores": os.cpu_count()}
        (asked.report / "cluster.md").write_text(PAGE.format(table="\n".join(lines), **about))


if __name__ == "__main__":
    main()
