"""What an append costs in every kind of storage, and with a journal.

One step of 8 environments (obs 17, act 6, float32) into a full memory of 200k rows, in turns, CPU and wall time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import relive as rl

sys.path.insert(0, str(Path(__file__).parents[1] / "memory"))

from timing import interleave

LANES, ROWS = 8, 200_000
SCHEMA = rl.Schema(obs=rl.Field((17,)), action=rl.Field((6,)))


def steps(*lead: int) -> dict[str, Any]:
    return {
        "obs": np.ones((*lead, 17), np.float32),
        "action": np.ones((*lead, 6), np.float32),
        "reward": np.ones(lead, np.float32),
        "terminated": np.zeros(lead, bool),
        "truncated": np.zeros(lead, bool),
    }


def writing(memory: rl.Memory, block: dict[str, Any]) -> Callable[[], None]:
    write = memory.append if block["reward"].ndim == 1 else memory.extend
    return lambda: write(**block)


def run(*, quick: bool) -> str:
    """The tables, as Markdown."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        memories = {
            "Ram": rl.Memory(SCHEMA, ROWS, LANES, seed=0),
            "Mapped": rl.Memory(SCHEMA, ROWS, LANES, storage=rl.Mapped(folder / "rows"), seed=0),
            "Shared": rl.Memory(SCHEMA, ROWS, LANES, storage=rl.Shared(f"bench-{os.getpid()}"), seed=0),
            "Ram, journal written": rl.Memory(SCHEMA, ROWS, LANES, seed=0),
            "Ram, journal synced": rl.Memory(SCHEMA, ROWS, LANES, seed=0),
        }
        for memory in memories.values():
            memory.extend(**steps(ROWS // LANES, LANES))
        memories["Ram, journal written"].save(folder / "written", journal="written")
        memories["Ram, journal synced"].save(folder / "synced", journal="synced")
        lines = []
        for title, lead in (("one step of 8 lanes", (LANES,)), ("a block of 64 steps of 8 lanes", (64, LANES))):
            block = steps(*lead)
            found = interleave(
                {label: writing(memory, block) for label, memory in memories.items()}, 4 if quick else 15
            )
            base = found["Ram"]
            lines += [f"| {title} | CPU, us | over Ram | wall, us | over Ram |", "|---|---|---|---|---|"]
            for label, timing in found.items():
                cells = [
                    f"{timing.cpu_median:.1f}",
                    f"{timing.cpu_median / base.cpu_median:.1f}",
                    f"{timing.wall_median:.1f}",
                    f"{timing.wall_median / base.wall_median:.1f}",
                ]
                lines.append(f"| {label} | " + " | ".join(cells) + " |")
            lines.append("")
        for memory in memories.values():
            memory.close()
    return "\n".join(lines).rstrip()


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(run(quick=parser.parse_args().quick))
