"""Writes the snapshots of the current format version that the tests load for ever: run once, when a version is new."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import recollect as rc


def make(folder: Path, sampler: rc.Sampler, journal: str | None) -> None:
    schema = rc.Schema(obs=rc.Field((2,)), action=rc.Field((), "uint8"), image=rc.Field((4, 4), "uint8"))
    memory = rc.Memory(schema, 60, 2, sampler=sampler, window=rc.NStep(2, 0.5), seed=11)

    def write(first: int, count: int) -> None:
        for step in range(first, first + count):
            ends = step % 7 == 6
            memory.append(
                obs=[[step, step + 0.25], [step, step + 0.5]],
                action=[step % 5, step % 3],
                image=np.full((2, 4, 4), step % 256),
                reward=[step, -step],
                terminated=[ends, False],
                truncated=[False, ends],
                final_obs=[[step + 1, 0], [step + 1, 1]],
            )

    write(0, 40)
    if isinstance(sampler, rc.Prioritized):
        memory.update_priorities(memory.sample(8), np.arange(8.0))
    else:
        memory.sample(8)
    memory.save(folder, journal=journal)
    if journal is not None:
        write(40, 5)
        memory.cut(1)
        write(45, 3)
    steps = len(memory)
    memory = rc.Memory.load(folder)
    assert len(memory) == steps
    batches = []
    for _ in range(3):
        batch = memory.sample(4)
        batches.append({key: batch[key].tolist() for key in ("serials", "lanes", "obs", "next_obs", "weights")})
    (folder / "expected.json").write_text(json.dumps({"steps": steps, "batches": batches}))


if __name__ == "__main__":
    root = Path(sys.argv[1])
    make(root / "prioritized", rc.Prioritized(), None)
    make(root / "shuffled", rc.Shuffled(), None)
    make(root / "journal", rc.Uniform(), "written")
