"""Writes the snapshots of the current format version that the tests load for ever: run once, when a version is new."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import relive as rl


def make(folder: Path, sampler: rl.Sampler, journal: str | None) -> None:
    schema = rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8"), image=rl.Field((4, 4), "uint8", "plain"))
    memory = rl.Memory(schema, 60, 2, sampler=sampler, window=rl.NStep(2, 0.5), seed=11)

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
    if isinstance(sampler, rl.Prioritized):
        memory.update_priorities(memory.sample(8), np.arange(8.0))
    else:
        memory.sample(8)
    memory.save(folder, journal=journal)
    if journal is not None:
        write(40, 5)
        memory.cut(1)
        write(45, 3)
    steps = len(memory)
    memory = rl.Memory.load(folder)
    assert len(memory) == steps
    batches = []
    for _ in range(3):
        batch = memory.sample(4)
        batches.append({key: batch[key].tolist() for key in ("serials", "lanes", "obs", "next_obs", "weights")})
    (folder / "expected.json").write_text(json.dumps({"steps": steps, "batches": batches}))


if __name__ == "__main__":
    root = Path(sys.argv[1])
    make(root / "prioritized", rl.Prioritized(), None)
    make(root / "shuffled", rl.Shuffled(), None)
    make(root / "journal", rl.Uniform(), "written")
