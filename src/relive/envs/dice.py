"""Random numbers for vectorised environments, an independent stream each."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np

from relive.errors import OptionError
from relive.types import Array

__all__ = ["Dice", "seeds", "seeds_for"]


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TO_UNIT = 2.0**-53
# Shifts and factors of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
_S30, _S27, _S31, _S11 = (np.uint64(n) for n in (30, 27, 31, 11))
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def seeds(seed: int | None, count: int) -> list[int]:
    """The seeds of ``count`` environments; that of environment i does not depend on the count.

    >>> seeds(7, 3) == seeds(7, 64)[:3]
    True
    """
    if seed is None:
        seed = secrets.randbits(63)
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise OptionError("seed", "be a whole number from 0 to 2**63 - 1, or None", repr(seed))
    base = _mix(np.array([seed], np.uint64))
    return [int(n) for n in _mix(base + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN) >> np.uint64(1)]


def seeds_for(seed: int | Sequence[int] | None, count: int) -> list[int]:
    """One seed for each environment, from a single seed or a list."""
    if isinstance(seed, np.ndarray) and seed.ndim == 0:
        seed = seed.item()
    if seed is None or isinstance(seed, (int, np.integer)):
        return seeds(seed, count)
    if not isinstance(seed, (list, tuple, np.ndarray, range)):
        raise OptionError("seed", "be a whole number, a list with one an environment, or None", repr(seed))
    each = list(seed)
    if len(each) != count:
        raise OptionError("seed", f"have one entry for each of {count} environments", f"{len(each)}")
    for one in each:
        if not isinstance(one, (int, np.integer)) or isinstance(one, bool) or not 0 <= one < 2**63:
            raise OptionError("seed", "hold whole numbers from 0 to 2**63 - 1", repr(one))
    return [int(one) for one in each]


@final
class Dice:
    """Random draws for vectorised environments, which depend only on each environment's seed and episode number.

    An episode's stream starts at a hash of the environment's seed and the episode's number, so earlier episodes do not
    change later ones.
    """

    def __init__(self, each: Sequence[int]) -> None:
        self._key = _mix(np.array(each, np.uint64))
        self._episode = np.zeros(len(each), np.uint64)
        self._place = self._key.copy()

    def begin(self, rows: Array) -> None:
        """Start the next episode of these environments."""
        self._episode[rows] += np.uint64(1)
        self._place[rows] = _mix(self._key[rows] ^ _mix(self._episode[rows] * _GOLDEN))

    def uniform(self, rows: Array | slice, count: int) -> Array:
        """Numbers from 0 to below 1, ``[count, len(rows)]``."""
        steps = np.arange(1, count + 1, dtype=np.uint64)[:, None] * _GOLDEN
        places = self._place[rows] + steps
        self._place[rows] = places[-1]
        return (_mix(places) >> _S11) * _TO_UNIT

    def integers(self, rows: Array | slice, count: int, bound: int) -> Array:
        """Whole numbers from 0 to below ``bound``, ``[count, len(rows)]``."""
        return (self.uniform(rows, count) * bound).astype(np.int64)

    def snapshot(self) -> dict[str, Array]:
        """The generator's state."""
        return {"key": self._key.copy(), "episode": self._episode.copy(), "place": self._place.copy()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Restore a snapshot."""
        self._key, self._episode, self._place = (np.array(state[k], np.uint64) for k in ("key", "episode", "place"))


def _mix(word: Array) -> Array:
    word = (word ^ (word >> _S30)) * _M1
    word = (word ^ (word >> _S27)) * _M2
    return np.asarray(word ^ (word >> _S31))
