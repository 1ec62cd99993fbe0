"""Random numbers for choices that a memory's sampler does not make, from the memory's own generator."""

from __future__ import annotations

import numpy as np

from recollect.memory import Memory

__all__ = ["generator"]


def generator(memory: Memory) -> np.random.Generator:
    """A generator for one call: another stream every time, and the same ones again from the same seed."""
    state = memory.random_state
    memory.random_state = state | {"position": state["position"] + 1}
    key = np.array([state["key0"], state["key1"]], np.uint64)
    # The memory's own draws keep to the lowest word of the counter, so no stream meets another.
    counter = np.array([0, 0, 0, state["position"] + 1], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
