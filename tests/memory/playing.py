"""Steps whose observations say when and where they were."""

from __future__ import annotations

import numpy as np

import relive as rl

SCHEMA = rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8"))
STEP = {"obs": np.zeros(3, np.float32), "action": 1, "reward": 0.0, "terminated": False, "truncated": False}
"""Of ``small``."""


def small(name: str, lanes: int | None = 2) -> rl.Memory:
    """Twenty rows a lane in shared memory."""
    schema = rl.Schema(obs=rl.Field((3,)), action=rl.Field((), "uint8"))
    return rl.Memory(schema, 20 * (lanes or 1), lanes, storage=rl.Shared(name), seed=0)


def play(memory: rl.Memory, steps: int, every: int = 0, start: int = 0) -> None:
    """Steps of all lanes; obs is [time, lane]; an episode ends after every so many."""
    lanes = memory.lanes
    for t in range(start, start + steps):
        ends = np.full(lanes, every > 0 and (t + 1) % every == 0)
        memory.append(
            obs=np.stack([np.full(lanes, t), np.arange(lanes)], 1),
            action=np.full(lanes, t % 256),
            reward=np.full(lanes, 1.0),
            terminated=ends,
            truncated=np.zeros(lanes, bool),
            final_obs=np.full((lanes, 2), 1000 + t),
        )
