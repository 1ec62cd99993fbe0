"""Random numbers for choices that a memory's sampler does not make, from the memory's own generator."""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import threading

import numpy as np

from relive.memory import Memory

_lock = threading.Lock()
_MADE = itertools.count()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # whoever held it is not in a child

__all__ = ["generator", "seed_of"]


def seed_of(seed: int | None) -> int:
    """The seed; for None one made of the state of NumPy's global generator, which old programs seed.

    Nothing is drawn from it, so what such a program draws itself stays the same. Buffers made one after the other get
    different seeds.
    """
    if seed is not None:
        return seed
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    return int.from_bytes(hashlib.sha256(pickle.dumps((state, next(_MADE)))).digest()[:8], "little")


def generator(memory: Memory) -> np.random.Generator:
    """A generator for one call: another stream every time, and the same ones again from the same seed."""
    with _lock:
        state = memory.random_state
        memory.random_state = state | {"position": state["position"] + 1}
    key = np.array([state["key0"], state["key1"]], np.uint64)
    # The memory's own draws keep to the lowest word of the counter, so no stream meets another.
    counter = np.array([0, 0, 0, state["position"] + 1], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
