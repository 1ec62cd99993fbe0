"""The drop-in modules against plain implementations of the algorithms they replace.

python bench/compat.py --report docs/bench
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import warnings
from datetime import date
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "memory"))

import gymnasium
import numpy as np
import torch as th
from compat_plain import PlainBatch, PlainPrioritized, PlainRollout

from relive.compat.pymarl import EpisodeBatch, OneHot, ReplayBuffer
from relive.compat.xuance.v1_1.memory_tools import PerOffPolicyBuffer
from relive.compat.xuance.v1_1.memory_tools_marl import MARL_OnPolicyBuffer
from timing import interleave

AGENTS, OBS, STATE, ACTIONS, LIMIT, EPISODES = 4, 40, 68, 10, 60, 5000

SCHEME: dict[str, Any] = {
    "state": {"vshape": (STATE,)},
    "obs": {"vshape": (OBS,), "group": "agents"},
    "actions": {"vshape": (1,), "group": "agents", "dtype": th.long},
    "avail_actions": {"vshape": (ACTIONS,), "group": "agents", "dtype": th.int},
    "reward": {"vshape": (1,)},
    "terminated": {"vshape": (1,), "dtype": th.uint8},
}
GROUPS = {"agents": AGENTS}
PREPROCESS = {"actions": ("actions_onehot", [OneHot(ACTIONS)])}

PAGE = """# Drop-in modules: speed and memory

Written by `make bench` on {day}, {machine}, Python {python}, torch {torch}, numpy {numpy}.

Against plain implementations of the documents' algorithms (`bench/compat_plain.py`): segment trees in Python lists, a
tensor made and copied at every `update`, returns one step after the other, float32 everything. Both take turns in one
run; process CPU time, one thread, median of the rounds. The machine is shared: read the ratios.

{table}

The padded tensors are allocated at once. relive's rows are for steps that happened: the figures are the growth of
the process's resident memory while {episodes} episodes are inserted, and again after as many more have replaced them.

{memory}
"""


def prioritized(quick: bool) -> tuple[dict[str, Any], str]:
    size, batch, obs = (20_000 if quick else 100_000), 256, 17
    space = gymnasium.spaces.Box(-np.inf, np.inf, (obs,), np.float32)
    ours = PerOffPolicyBuffer(space, gymnasium.spaces.Discrete(6), None, 1, size, batch, 0.6, seed=0)
    plain = PlainPrioritized(obs, size, batch, 0.6)
    random = np.random.default_rng(0)
    for _ in range(size):
        row = random.normal(size=(1, obs)).astype(np.float32)
        reward, done = np.array([1.0], np.float32), np.array([False])
        ours.store(row, np.array([3]), reward, done, row)
        plain.store(row[0], 3.0, 1.0, False, row[0])
    errors = random.random(batch) + 0.1

    def our_turn() -> None:
        samples = ours.sample(0.4)
        ours.update_priorities(samples[6], errors)

    def plain_turn() -> None:
        samples = plain.sample(0.4)
        plain.update(samples[6], errors)

    return {"relive": our_turn, "plain": plain_turn}, f"prioritised sample + update, {batch} of {size:,}"


def runner_steps() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What an episode runner passes to update, twice a step."""
    random = np.random.default_rng(0)
    steps = []
    for t in range(LIMIT):
        obs = [random.normal(size=OBS).astype(np.float32) for _ in range(AGENTS)]
        avail = [[int(bit) for bit in random.integers(0, 2, ACTIONS)] for _ in range(AGENTS)]
        before = {"state": [random.normal(size=STATE).astype(np.float32)], "avail_actions": [avail], "obs": [obs]}
        actions = th.tensor(random.integers(0, ACTIONS, (1, AGENTS)))
        steps.append((before, {"actions": actions, "reward": [(1.0,)], "terminated": [(t == LIMIT - 1,)]}))
    return steps


def updates(_: bool) -> tuple[dict[str, Any], str]:
    steps = runner_steps()
    ours = EpisodeBatch(SCHEME, GROUPS, 1, LIMIT + 1, preprocess=PREPROCESS)
    plain = PlainBatch(SCHEME, AGENTS, 1, LIMIT + 1, ACTIONS)

    def our_turn() -> None:
        for t, (before, after) in enumerate(steps):
            ours.update(before, ts=t)
            ours.update(after, ts=t)

    def plain_turn() -> None:
        for t, (before, after) in enumerate(steps):
            plain.update(before, t)
            plain.update(after, t)

    return {"relive": our_turn, "plain": plain_turn}, f"an episode of {LIMIT} steps, two updates each"


def inserts(_: bool) -> tuple[dict[str, Any], str]:
    batch = EpisodeBatch(SCHEME, GROUPS, 1, LIMIT + 1, preprocess=PREPROCESS)
    plain_batch = PlainBatch(SCHEME, AGENTS, 1, LIMIT + 1, ACTIONS)
    for t, (before, after) in enumerate(runner_steps()):
        for each in (before, after):
            batch.update(each, ts=t)
            plain_batch.update(each, t)
    ours = ReplayBuffer(SCHEME, GROUPS, 200, LIMIT + 1, PREPROCESS)
    plain = PlainBatch(SCHEME, AGENTS, 200, LIMIT + 1, ACTIONS)

    def our_turn() -> None:
        for _ in range(20):
            ours.insert_episode_batch(batch)

    def plain_turn() -> None:
        for place in range(20):
            plain.insert(plain_batch, place)

    return {"relive": our_turn, "plain": plain_turn}, f"20 episodes of {LIMIT} steps into replay"


def finish(steps: int) -> tuple[dict[str, Any], str]:
    gamma, lam = 0.99, 0.95
    spaces = (AGENTS, None, (OBS,), (), (AGENTS, 1), (AGENTS,))
    ours = MARL_OnPolicyBuffer(*spaces, 1, 256, True, True, gamma, lam)
    plain = PlainRollout(1, 256, AGENTS, OBS, gamma, lam)
    random = np.random.default_rng(0)
    for t in range(256):
        step = {
            "obs": random.normal(size=(1, AGENTS, OBS)).astype(np.float32),
            "actions": np.zeros((1, AGENTS)),
            "rewards": random.normal(size=(1, AGENTS, 1)).astype(np.float32),
            "values": random.normal(size=(1, AGENTS, 1)).astype(np.float32),
            "log_pi_old": np.zeros((1, AGENTS)),
            "terminals": np.zeros((1, AGENTS), bool),
        }
        ours.store(step)
        for key in ("obs", "rewards", "values", "terminals"):
            plain.data[key][:, t] = step[key]
    value = np.ones((AGENTS, 1), np.float32)

    def our_turn() -> None:
        ours._paths._since[0] = 256 - steps  # as if they had not been finished
        ours.finish_path(value, 0)

    def plain_turn() -> None:
        plain.finish_path(value, 0, 256 - steps, 256)

    our_turn()
    plain_turn()
    np.testing.assert_allclose(
        ours.data["returns"][0, -steps:], plain.data["returns"][0, -steps:], rtol=1e-4, atol=1e-4
    )
    return {"relive": our_turn, "plain": plain_turn}, f"many agents' finish_path, {steps} steps"


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill(lengths: str, episodes: int) -> None:
    """In a process of its own: insert episodes and say how much memory that took."""
    random = np.random.default_rng(0)
    buffer = ReplayBuffer(SCHEME, GROUPS, episodes, LIMIT + 1, preprocess=PREPROCESS, seed=0)
    batch = EpisodeBatch(SCHEME, GROUPS, 1, LIMIT + 1, preprocess=PREPROCESS)
    steps = runner_steps()
    drawn = []

    def insert(length: int) -> None:
        drawn.append(length)
        fresh = batch if length == LIMIT else EpisodeBatch(SCHEME, GROUPS, 1, LIMIT + 1, preprocess=PREPROCESS)
        if length < LIMIT:
            for name, tensor in batch.data.transition_data.items():
                fresh.data.transition_data[name][:, : length + 1] = tensor[:, : length + 1]
        buffer.insert_episode_batch(fresh)

    for t, (before, after) in enumerate(steps):
        batch.update(before, ts=t)
        batch.update(after, ts=t)
    batch.update(steps[0][0], ts=LIMIT)
    for _ in range(20):
        insert(10)
    drawn.clear()
    start = resident() - buffer.nbytes
    grown = []
    for _ in range(2):
        for _ in range(episodes):
            insert(LIMIT if lengths == "full" else int(random.integers(10, 41)))
        grown.append(resident() - start)
    print(f"{np.mean(drawn) + 1:.1f} {grown[0]} {grown[1]} {buffer.nbytes}")


def memory(quick: bool) -> tuple[str, float]:
    episodes = 500 if quick else EPISODES
    padded = PlainBatch(SCHEME, AGENTS, 1, LIMIT + 1, ACTIONS).nbytes() * episodes
    lines = [
        "| episodes | rows on average | padded tensors | relive, filled | replaced once |",
        "|---|---|---|---|---|",
    ]
    shorter = 0.0
    for name, lengths in (("of 10 to 40 steps", "short"), (f"all of {LIMIT} steps", "full")):
        line = [sys.executable, __file__, "--fill", lengths, "--episodes", str(episodes)]
        found = subprocess.run(line, check=True, capture_output=True, text=True).stdout.split()
        rows, first, second = float(found[0]), int(found[1]), int(found[2])
        sizes = " | ".join(f"{n / 2**20:.0f} MiB" for n in (padded, first, second))
        lines.append(f"| {episodes} {name} | {rows:.1f} | {sizes} |")
        if lengths == "short":
            shorter = max(first, second) / 2**20
    return "\n".join(lines), shorter


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--report", type=Path, help="folder for a page of the results")
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    parser.add_argument("--episodes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".*list of numpy.ndarrays.*|.*copy construct.*")
    if options.fill:
        fill(options.fill, options.episodes)
        return
    parts = [(prioritized, 50), (updates, 3), (inserts, 1), (lambda _: finish(256), 10), (lambda _: finish(25), None)]
    lines = ["| work | plain, us | relive, us | times faster | goal |", "|---|---|---|---|---|"]
    for make, goal in parts:
        callables, name = make(options.quick)
        found = interleave(callables, rounds=7 if options.quick else 15)
        plain, ours = found["plain"].cpu_median, found["relive"].cpu_median
        aim = "" if goal is None else f"{goal}"
        lines.append(f"| {name} | {plain:,.0f} | {ours:,.0f} | {plain / ours:.1f} | {aim} |")
        print(lines[-1], flush=True)
    table, shorter = memory(options.quick)
    print(f"\n{table}\n\nat most 130 MiB wanted for {EPISODES} episodes: {shorter:.0f}")
    if options.report:
        folder = options.report / "quick" if options.quick else options.report
        folder.mkdir(parents=True, exist_ok=True)
        page = PAGE.format(
            day=date.today().isoformat(),
            machine=platform.machine(),
            python=platform.python_version(),
            torch=th.__version__,
            numpy=np.__version__,
            table="\n".join(lines),
            memory=table,
            episodes=500 if options.quick else EPISODES,
        )
        (folder / "compat.md").write_text(page)


if __name__ == "__main__":
    main()
