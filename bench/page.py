"""What it costs to be looked at: a run with nobody looking and with a page open, and the page itself.

python bench/page.py --report docs/bench

Runs of the same steps take turns; CPU seconds of the training process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import relive as rl

PAGE = """# The page: what it costs

Written by `python bench/page.py` on {day}, {machine}, Python {python}; the machine is shared: read the ratios.

## A run that is looked at

MADDPG on simple_spread, {steps:,} steps, {rounds} rounds, interleaved: CPU seconds of the training process, and how
many times those of one that cannot be looked at (median of each round's ratio, and the least and largest).

{runs}

## A memory of ten million rows

A summary as the page asks for it (prioritised, draws counted): every row looked at, and at most a million of them, as
the page does.

{census}

## The page itself

{paint}
"""


def train_one(kind: str, steps: int) -> dict[str, float]:
    """Train in this process; what it cost."""
    import torch

    from relive.agents.maddpg import MADDPGConfig
    from relive.live import Publisher
    from relive.training import loop
    from relive.training.films import Films

    torch.set_num_threads(1)
    if kind == "cannot be looked at":
        loop.published = lambda *_: nullcontext()  # type: ignore[assignment]
    spent_on = _timed(Publisher, "_talk") if kind == "looked at" else [0.0]
    filmed = _timed(Films, "note") if kind == "looked at" else [0.0]
    with tempfile.TemporaryDirectory() as folder:
        config = MADDPGConfig(capacity=200_000, per_alpha=0.6)
        how: dict[str, Any] = {"eval_every": 10**9, "save_every": 0, "video": False, "log": (), "eval_episodes": 10}
        looking = None
        if kind == "looked at":
            looking = subprocess.Popen([sys.executable, __file__, "--look", folder])
        begun = time.process_time()
        rl.train(config, "simple_spread", folder=Path(folder) / "run", steps=steps, **how)
        spent = time.process_time() - begun
        if looking is not None:
            looking.terminate()
            looking.wait()
    return {"cpu": spent, "answering": spent_on[0] / spent, "filming": filmed[0] / spent}


def _timed(kind: type, name: str) -> list[float]:
    """Have a method add up the CPU seconds that it takes."""
    plain, total = getattr(kind, name), [0.0]

    def timed(*given: Any) -> Any:
        begun = time.thread_time()
        try:
            return plain(*given)
        finally:
            total[0] += time.thread_time() - begun

    setattr(kind, name, timed)
    return total


def look(folder: str) -> None:
    """A page that is open on a run's memory."""
    from relive.web.start import Page

    with Page(Path(folder), {}).start() as page:
        address = f"http://127.0.0.1:{page.port}/events?memory=run&token={page.token}"
        while True:
            try:
                with urllib.request.urlopen(address) as answer:
                    while answer.readline():
                        pass
            except OSError:
                time.sleep(0.2)


def runs(rounds: int, steps: int) -> str:
    kinds = ("cannot be looked at", "nobody looks", "looked at")
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    shares: list[dict[str, float]] = []
    for number in range(rounds):
        for kind in kinds if number % 2 == 0 else kinds[::-1]:
            command = [sys.executable, __file__, "--train", kind, "--steps", str(steps)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            answer = json.loads(done.stdout.splitlines()[-1])
            found[kind].append(answer["cpu"])
            if kind == "looked at":
                shares.append(answer)
    lines = ["| | CPU seconds | times |", "|---|---|---|"]
    for kind in kinds:
        ratios = [mine / plain for mine, plain in zip(found[kind], found[kinds[0]], strict=True)]
        middle = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        lines.append(f"| {kind} | {statistics.median(found[kind]):.2f} | {middle} |")
        print(lines[-1], flush=True)
    parts = (statistics.median(each[key] for each in shares) for key in ("answering", "filming"))
    lines.append("\nOf one that is looked at, {:.2%} of its CPU seconds went into answers, {:.2%} into keeping how "
                 "episodes begin for films: what can be told apart from the noise above.".format(*parts))  # fmt: skip
    print(lines[-1], flush=True)
    return "\n".join(lines)


def census(rows: int) -> str:
    memory = rl.Memory(rl.Schema(obs=rl.Field((4,))), rows, 8, sampler=rl.Prioritized(), seed=0)
    size = 10_000
    zeros = np.zeros((size, 8))
    for _ in range(rows // 8 // size):
        memory.extend(obs=np.zeros((size, 8, 4)), reward=zeros, terminated=zeros > 0, truncated=zeros > 0)
    memory.inspect.count_draws()
    memory.update_priorities(memory.sample(100_000), np.random.default_rng(0).random(100_000))
    lines = ["| | rows looked at | CPU milliseconds |", "|---|---|---|"]
    for name, most in (("all rows", 10**12), ("as the page does", 1_000_000)):
        spent = []
        for _ in range(7):
            begun = time.process_time()
            found = memory.inspect.census(most)
            spent.append(time.process_time() - begun)
        lines.append(f"| {name} | {found.rows:,} of {len(memory):,} | {1000 * statistics.median(spent):.1f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def paint(rounds: int) -> str:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        return "No browser here."
    from playwright.sync_api import sync_playwright

    from relive.web.start import Page

    memory = rl.Memory(rl.Schema(obs=rl.Field((4,))), 1_000_000, 8, sampler=rl.Prioritized(), seed=0)
    zeros = np.zeros((100_000, 8))
    memory.extend(obs=np.zeros((100_000, 8, 4)), reward=zeros, terminated=zeros > 0, truncated=zeros > 0)
    times, sizes = [], []
    with Page(None, {"memory": memory}).start() as page, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(rounds):
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(page.url)
            tab.wait_for_selector("#ages svg")
            found = tab.evaluate("performance.getEntriesByType('paint').map((each) => each.startTime)")
            times.append(max(found))
            what = "[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]"
            sizes.append(tab.evaluate(f"{what}.reduce((sum, each) => sum + each.transferSize, 0)"))
            context.close()
        browser.close()
    line = f"First contentful paint after {statistics.median(times):.0f} ms; {max(sizes) / 1000:.0f} kB in all."
    print(line, flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--look", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=0)
    asked = parser.parse_args()
    if asked.look:
        look(asked.look)
    elif asked.train:
        print(json.dumps(train_one(asked.train, asked.steps)))
    else:
        rounds, steps = (2, 30_000) if asked.quick else (7, asked.steps or 100_000)
        parts = {"runs": runs(rounds, steps), "census": census(1_000_000 if asked.quick else 10_000_000),
                 "paint": paint(rounds)}  # fmt: skip
        if asked.report:
            about = {"day": date.today(), "machine": platform.machine(), "python": platform.python_version()}
            (asked.report / "page.md").write_text(PAGE.format(**about, **parts, steps=steps, rounds=rounds))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    assert threading.active_count() == 1
    sys.exit(main())
