"""Packed rows or columns: the same samples from memories that pack fields up to some size, in cache and out of it.

python layout.py
"""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import ours
from relive.memory import layout, memory
from timing import interleave
from workloads import EpisodeSpec, RowSpec, workloads

LIMITS = {"columns": 0, "64": 64, "256": 256, "1024": 1024, "all packed": 1 << 30}


def main() -> None:
    """Print a table of microseconds a sample, median of wall time."""
    print("| work | " + " | ".join(LIMITS) + " |\n" + "|---" * (len(LIMITS) + 1) + "|")
    whole = workloads()
    for name, parts in (("w1", (1, 100)), ("w4", (1, 100)), ("w5", (1, 50))):
        for part in parts:
            spec = whole[name]
            assert isinstance(spec, RowSpec | EpisodeSpec)
            spec = replace(spec, capacity=spec.capacity // part)
            calls = {}
            for label, limit in LIMITS.items():
                with mock.patch.object(memory, "place", lambda schema, most=limit: layout.place(schema, most)):
                    calls[label] = getattr(ours, spec.function)(spec)
            timings = interleave(calls, rounds=15)
            cells = " | ".join(f"{timings[label].wall_median:.1f}" for label in LIMITS)
            print(f"| {name}, {spec.capacity:,} {'episodes' if name == 'w5' else 'rows'} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
