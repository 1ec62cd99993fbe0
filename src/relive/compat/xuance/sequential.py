"""XuanCe's replay of sequences for world models."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive.compat.checks import at_least, flags_of, within
from relive.compat.drawing import generator
from relive.compat.nests import field_of
from relive.compat.saving import Saveable, exclusive
from relive.compat.xuance.arrays import sample_batch
from relive.compat.xuance.buffer import Buffer, Stored
from relive.compat.xuance.slots import Slots
from relive.errors import NotEnoughRows
from relive.memory import Memory
from relive.schema import Field

__all__ = ["SequentialReplayBuffer"]

_NUMBER, _FLAG = Field((), "float32", role="plain"), Field((), "bool", role="plain")


class SequentialReplayBuffer(Buffer, Saveable):
    """Replay of ``n_envs`` environments, ``buffer_size / n_envs`` steps each, in sequences across episodes' ends."""

    obs = Stored("obs")
    acts = Stored("acts")
    rews = Stored("rews")
    terms = Stored("terms")
    truncs = Stored("truncs")
    is_first = Stored("is_first")

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        buffer_size: int,
        batch_size: int,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, auxiliary_shape, n_envs, buffer_size)
        at_least("buffer_size", self.buffer_size, 2 * self.n_envs)
        self.batch_size = at_least("batch_size", batch_size, 1)
        fields = {
            "obs": field_of("observation_space", observation_space),
            "acts": field_of("action_space", action_space),
            "rews": _NUMBER,
            "terms": _FLAG,
            "truncs": _FLAG,
            "is_first": _FLAG,
        }
        self._slots = Slots(fields, self.n_envs, self.n_size, seed=seed)

    @exclusive
    def clear(self) -> None:
        """Forget everything."""
        self._slots.clear()
        self.ptr, self.size = 0, 0

    @exclusive
    def store(self, obs: Any, acts: Any, rews: Any, terms: Any, truncs: Any, is_first: Any) -> None:
        """Store one step of every environment: values ``[n_envs, ...]``."""
        flags = {"terms": terms, "truncs": truncs, "is_first": is_first}
        exact = {name: flags_of(name, value, (self.n_envs,)) for name, value in flags.items()}
        within("acts", self.action_space, acts)
        self._slots.append({"obs": obs, "acts": acts, "rews": rews, **exact}, exact["terms"], exact["truncs"])
        self.ptr, self.size = self._slots.ptr, self._slots.size

    @exclusive
    def sample(self, seq_len: int) -> dict[str, Any]:
        """``batch_size`` sequences of every environment, ``[n_envs, seq_len, batch_size, ...]`` by name.

        Every place where ``seq_len`` steps follow each other is as likely; numbers and flags have an axis of 1, as
        float32.
        """
        seq_len = at_least("seq_len", seq_len, 1)
        if self.size < seq_len:
            raise NotEnoughRows("buffer", f"hold {seq_len} steps of an environment", self.size)
        oldest = self._slots.count - self.size
        shape = (self.n_envs, 1, self.batch_size)
        first = generator(self._slots.memory).integers(0, self.size - seq_len + 1, shape)
        slots = (oldest + first + np.arange(seq_len)[:, None]) % self.n_size
        envs = np.arange(self.n_envs)[:, None, None]
        samples = {name: sample_batch(self._slots.arrays(name), (envs, slots)) for name in ("obs", "acts")}
        for name in ("rews", "terms", "truncs", "is_first"):
            samples[name] = self._slots.arrays(name)[envs, slots].astype(np.float32)[..., None]
        return samples

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._slots.memory, {"count": self._slots.count}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._slots.adopt(memory, notes["count"])
        self.ptr, self.size = self._slots.ptr, self._slots.size
