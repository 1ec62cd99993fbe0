"""Rows of several environments in fixed slots, as arrays ``[n_envs, n_size, ...]``."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from relive.compat.drawing import seed_of
from relive.compat.nests import in_nest
from relive.errors import OptionError, SnapshotError
from relive.memory import Batch, Memory, Sampler, Transition, Window
from relive.memory.batch import entry
from relive.schema import Field, Schema
from relive.types import Array

__all__ = ["Slots", "slots_of"]


@final
class Slots:
    """A memory whose rows need none after them, so that step k of every environment lies in slot ``k % n_size``.

    Args:
        fields: By name, a field or a nest of them.
    """

    def __init__(
        self,
        fields: dict[str, Any],
        n_envs: int,
        n_size: int,
        *,
        sampler: Sampler | None = None,
        window: Window | None = None,
        seed: int | None = None,
    ) -> None:
        self.fields = fields
        self.n_envs, self.n_size = n_envs, n_size
        self._options: dict[str, Any] = {"sampler": sampler, "window": window or Transition()}
        self.memory = self._make(seed_of(seed))
        self.count = 0
        """Steps since the memory was new or cleared."""

    @property
    def ptr(self) -> int:
        """The slot that the next step goes to."""
        return self.count % self.n_size

    @property
    def size(self) -> int:
        """Steps of one environment that are there."""
        return min(self.count, self.n_size)

    def _make(self, seed: int | None) -> Memory:
        schema = Schema(reward=None, **self.fields)
        return Memory(schema, self.n_envs * self.n_size, self.n_envs, seed=seed, **self._options)

    def adopt(self, memory: Memory, count: Any) -> None:
        """Take over a memory of so many steps."""
        if not isinstance(count, int) or len(memory) != min(count, self.n_size) * self.n_envs:
            raise SnapshotError("buffer.json", f"count the {len(memory)} steps that were saved", count)
        self.memory, self.count = memory, count

    def clear(self) -> None:
        """Start over with zeros in slot 0; the generator goes on."""
        state = self.memory.random_state
        self.memory = self._make(0)
        self.memory.random_state = state
        self.count = 0

    def append(self, step: dict[str, Any], terminated: Any, truncated: Any = None) -> None:
        """Append one step of every environment."""
        if truncated is None:
            truncated = np.zeros(self.n_envs, bool)
        self.memory.append(**step, terminated=terminated, truncated=truncated)
        self.count += 1

    def fill(self, steps: dict[str, Any], terminated: Array) -> None:
        """Start over with steps ``[T, n_envs, ...]``; if they do not fit, what was there stays."""
        state, filled = self.memory.random_state, self._make(0)
        filled.extend(**steps, terminated=terminated, truncated=np.zeros_like(terminated))
        filled.random_state = state
        self.memory, self.count = filled, len(terminated)

    def arrays(self, name: str) -> Any:
        """A field's slots ``[n_envs, n_size, ...]``: views, nested as the field is."""
        return in_nest(self.fields[name], name, self.memory.slots)

    def truncations(self) -> Array:
        """Which steps were cut off, ``[n_envs, n_size]``; a copy."""
        flags = np.zeros((self.n_envs, self.n_size), bool)
        known = self.memory["truncated"]
        flags[:, : known.shape[1]] = known
        return flags

    def of_batch(self, name: str, batch: Batch) -> Any:
        """A field of a batch, nested as the field is."""
        if type(self.fields[name]) is Field:
            return batch[name]
        return in_nest(self.fields[name], name, lambda path: entry(batch, path))

    def read(self, envs: Array, slots: Array) -> Batch:
        """Rows by environment and slot."""
        return self.memory.read(envs, self.serials(slots))

    def serials(self, slots: Array) -> Array:
        """Serials of the rows that lie in slots now."""
        newest = self.count - 1
        return np.asarray(newest - (newest - slots) % self.n_size)

    def path(self, since: int) -> Array:
        """Slots of the steps from one on, oldest first, as far as they are still there."""
        return np.arange(max(since, self.count - self.n_size), self.count) % self.n_size


def slots_of(indexes: Any, n_envs: int, n_size: int) -> tuple[Array, Array]:
    """Environments and slots of documented indexes: environment * n_size + slot."""
    array = np.asarray(indexes)
    if array.dtype.kind not in "iu" or not array.size or not 0 <= array.min() <= array.max() < n_envs * n_size:
        raise OptionError("indexes", f"be whole numbers from 0 to {n_envs * n_size - 1}", repr(indexes))
    return divmod(array.ravel().astype(np.int64), n_size)
