"""Draws of relive's memories as XuanCe's make them, from NumPy's global generator, to compare what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["align"]


def align(memory: Any) -> None:
    """Let a memory draw what XuanCe's own would at this point of the program."""
    kind = type(memory).__name__
    random: Any = np.random
    if kind in ("DummyOffPolicyBuffer", "DummyOffPolicyBuffer_Atari"):

        def steps(batch_size: int | None = None) -> Any:
            size = batch_size or memory.batch_size
            places = random.choice(memory.n_envs, size), random.choice(memory.size, size)
            return memory._documented(memory._slots.read(*places))

        memory.sample = steps
    elif kind in ("MARL_OffPolicyBuffer", "MeanField_OffPolicyBuffer"):

        def joint(batch_size: int | None = None) -> Any:
            size = batch_size or memory.batch_size
            places = random.choice(memory.n_envs, size), random.choice(memory.size, size)
            return memory._of_batch(memory._slots.read(*places), memory._kept) | {"batch_size": size}

        memory.sample = joint
    elif kind in ("MARL_OffPolicyBuffer_RNN", "MeanField_OffPolicyBuffer_RNN"):

        def episodes(batch_size: int | None = None) -> Any:
            size = batch_size or memory.batch_size
            more = {"batch_size": size, "sequence_length": memory.max_eps_len}
            return memory._read(random.choice(memory.size, size)) | more

        memory.sample = episodes
