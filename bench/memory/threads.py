"""One thread or two for the copying of a large batch (W3 at 256, 14 MiB), beside the C floor.

python threads.py
"""

from __future__ import annotations

from unittest import mock

import floor
import ours
import relive as rl
from timing import interleave
from workloads import RowSpec, workloads


def main() -> None:
    """Print microseconds a batch, medians of wall and CPU time."""
    spec = workloads()["w3_256"]
    assert isinstance(spec, RowSpec)
    calls = {"C floor": floor.w3(spec)}
    for threads in (1, 2):
        with mock.patch.object(rl, "Memory", lambda *a, n=threads, make=rl.Memory, **k: make(*a, threads=n, **k)):
            calls[f"{threads} thread{'s' if threads > 1 else ''}"] = ours.w3(spec)
    print("| | wall | CPU |\n|---|---|---|")
    for name, timing in interleave(calls, rounds=25).items():
        print(f"| {name} | {timing.wall_median:,.0f} | {timing.cpu_median:,.0f} |")


if __name__ == "__main__":
    main()
