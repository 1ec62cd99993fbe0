"""How long a writer waits while other threads sample without pause.

python writers.py
"""

from __future__ import annotations

import threading
import time

import numpy as np

import relive as rl

SECONDS = 3.0
ROWS = 100_000
BATCH = 32_768


def main() -> None:
    """Print appends and their waiting times for two and three sampling threads."""
    memory = rl.Memory(rl.Schema(obs=rl.Field((64,))), 2 * ROWS, seed=0)
    flags = np.zeros(ROWS, bool)
    memory.extend(obs=np.zeros((ROWS, 64)), reward=np.zeros(ROWS), terminated=flags, truncated=flags)
    print("| threads that sample | appends | mean wait, ms | worst, ms |\n|---|---|---|---|")
    for count in (2, 3):
        waits = wait_beside(memory, count)
        print(f"| {count} | {len(waits):,} | {1e3 * np.mean(waits):.2f} | {1e3 * max(waits):.0f} |")


def wait_beside(memory: rl.Memory, count: int) -> list[float]:
    """Seconds each append took."""
    stop = threading.Event()

    def sample() -> None:
        while not stop.is_set():
            memory.sample(BATCH)

    threads = [threading.Thread(target=sample) for _ in range(count)]
    for thread in threads:
        thread.start()
    obs, waits, end = np.zeros(64, np.float32), [], time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        memory.append(obs=obs, reward=0.0, terminated=False, truncated=False)
        waits.append(time.perf_counter() - start)
    stop.set()
    for thread in threads:
        thread.join()
    return waits


if __name__ == "__main__":
    main()
