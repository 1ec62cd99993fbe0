"""Buffers of MADDPG codes: one dict entry an agent and thing, one matrix of rows, one array a thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from relive.compat.checks import array, at_least, flags_of, plain, stored
from relive.compat.drawing import seed_of
from relive.compat.saving import Saveable, exclusive
from relive.errors import MissingExtra, OptionError, Problem, StepError
from relive.memory import Memory, Uniform
from relive.memory.checks import flag
from relive.messages import brief
from relive.schema import Field, Schema
from relive.types import Array

__all__ = ["Buffer", "PackedMemory", "ReplayMemory"]


def _plain(shape: Any = (), dtype: Any = "float32") -> Field:
    return Field(shape, dtype, role="plain")


class Buffer(Saveable):
    """Steps of agents with different shapes, first in, first out; threads may store and sample at once.

    Args:
        args: Has ``buffer_size``, ``n_agents``, ``obs_shape`` and ``action_shape``, one whole number an agent.
        dones: Keep whether a step was an agent's last as well, as ``done`` ``[agents]``.
        dtype: Of observations, actions and rewards.
    """

    def __init__(self, args: Any, *, seed: int | None = None, dones: bool = False, dtype: Any = "float32") -> None:
        for name in ("buffer_size", "n_agents", "obs_shape", "action_shape"):
            if not hasattr(args, name):
                raise OptionError("args", f"have {name}", brief(args))
        self.args, self.size = args, at_least("buffer_size", args.buffer_size, 1)
        fields: dict[str, Any] = {}
        for name in ("obs_shape", "action_shape"):
            if len(getattr(args, name)) != args.n_agents:
                raise OptionError(f"args.{name}", f"have {args.n_agents} entries", len(getattr(args, name)))
        for i in range(args.n_agents):
            seen, done = _plain((args.obs_shape[i],), dtype), _plain((args.action_shape[i],), dtype)
            fields |= {f"o_{i}": seen, f"u_{i}": done, f"r_{i}": _plain((), dtype), f"o_next_{i}": seen}
        self._dones = flag("dones", dones)
        if self._dones:
            fields["done"] = _plain((args.n_agents,), "bool")
        self._schema = Schema(reward=None, **fields)
        self._adopt(self._make(seed_of(seed)), {"count": 0})

    def _make(self, seed: int) -> Memory:
        return Memory(self._schema, max(2, self.size), seed=seed)

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._memory, {"count": self._count}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._memory, self._count = memory, int(notes["count"])
        self.buffer = {name: memory.slots(name)[: self.size] for name in memory}

    @property
    def lock(self) -> Any:
        """Held while a step is stored; whoever takes it keeps others from storing."""
        return self._lock

    @property
    def current_size(self) -> int:
        """Steps stored."""
        return len(self._memory)

    def store_episode(self, o: Any, u: Any, r: Any, o_next: Any, done: Any = False) -> None:
        """Store one step of all agents, whole or not at all: a list of arrays ``[agents][...]`` each.

        Args:
            done: Whether it ended the episode, other than by a time limit, for all agents or for each; kept if the
                buffer keeps ``dones``.
        """
        ended = flags_of("done", done, (self.args.n_agents,) if array(done).ndim else ())
        step: dict[str, Any] = {}
        for name, values in (("o", o), ("u", u), ("r", r), ("o_next", o_next)):
            if not isinstance(values, Sequence) and not getattr(values, "ndim", 0):
                raise StepError((Problem(name, "be a list of the agents' values", brief(values)),))
            if len(values) < self.args.n_agents:
                rule = f"hold one value for each of {self.args.n_agents} agents"
                raise StepError((Problem(name, rule, str(len(values))),))
            for i in range(self.args.n_agents):
                step[f"{name}_{i}"] = values[i]
        if self._dones:
            step["done"] = np.broadcast_to(ended, self.args.n_agents)
        self._append(step, terminated=bool(ended.all()))

    @exclusive
    def _append(self, step: dict[str, Any], *, terminated: bool) -> None:
        memory = self._memory
        if self.size == 1 and len(memory):  # a memory of one row: another one
            memory = self._make(0)
            memory.random_state = self._memory.random_state
        memory.append(**step, terminated=terminated, truncated=False)
        if memory is self._memory:
            self._count += 1
        else:
            self._adopt(memory, {"count": self._count + 1})

    @exclusive
    def _get_storage_idx(self, inc: int | None = None) -> Any:
        """Take the next places for steps that the caller writes into ``buffer`` itself: a number, or an array."""
        taken = at_least("inc", inc or 1, 1)
        if taken > self.size:
            raise OptionError("inc", f"be at most the buffer's size, {self.size}", taken)
        places = (self._count + np.arange(taken)) % self.size
        nothing = {name: np.zeros(array.shape[1:], array.dtype) for name, array in self.buffer.items()}
        for _ in range(taken):
            self._append(nothing, terminated=False)
        return places[0] if taken == 1 else places

    def sample(self, batch_size: int) -> dict[str, Array]:
        """Steps by name, ``[batch_size, ...]``."""
        batch = self._memory.sample(batch_size)
        return {name: batch[name] for name in self.buffer}


@final
class PackedMemory:
    """Steps as rows ``[s, a, r, s_]`` of one matrix."""

    def __init__(self, s_dim: int, a_dim: int, capacity: int, *, seed: int | None = None) -> None:
        self.s_dim, self.a_dim = at_least("s_dim", s_dim, 1), at_least("a_dim", a_dim, 1)
        self.capacity, self.pointer = at_least("capacity", capacity, 2), 0
        schema = Schema(reward=None, row=_plain((2 * self.s_dim + self.a_dim + 1,)))
        self._memory = Memory(schema, self.capacity, seed=seed_of(seed))

    @property
    def memory(self) -> Array:
        """The matrix ``[capacity, 2 s_dim + a_dim + 1]``, a view."""
        return self._memory.slots("row")

    def store_transition(self, s: Any, a: Any, r: float, s_: Any) -> None:
        """Store a step; once all rows are used, the oldest makes room."""
        parts = (("s", s, (self.s_dim,)), ("a", a, (self.a_dim,)), ("r", r, ()), ("s_", s_, (self.s_dim,)))
        problems: list[Problem] = []
        row = [stored(name, _lone(value, shape), shape, "float32", problems) for name, value, shape in parts]
        if problems:
            raise StepError(tuple(problems))
        self._memory.append(
            row=np.concatenate([np.ravel(part) for part in row if part is not None]), terminated=False, truncated=False
        )
        self.pointer += 1

    def sample(self, batch_size: int) -> tuple[Array, Array, Array, Array]:
        """States, actions, rewards ``[B, 1]`` and next states of rows that were stored."""
        rows = self._memory.sample(batch_size).row
        ends = np.cumsum([self.s_dim, self.a_dim, 1])
        s, a, r, s_ = np.split(rows, ends, axis=1)
        return s, a, r, s_


@final
class ReplayMemory:
    """One array a thing, and samples as tensors.

    Args:
        n_s: Numbers of a state.
        n_a: Actions to choose from.
    """

    def __init__(
        self, n_s: int, n_a: int, *, memory_size: int = 10_000, batch_size: int = 64, seed: int | None = None
    ) -> None:
        self.n_s, self.n_a = at_least("n_s", n_s, 1), at_least("n_a", n_a, 1)
        self.MEMORY_SIZE, self.BATCH_SIZE = memory_size, at_least("batch_size", batch_size, 1)
        fields = {"s": _plain((self.n_s,)), "a": _plain((), "uint8" if self.n_a <= 256 else "int64"), "r": _plain()}
        fields |= {"done": _plain((), "bool"), "s_": _plain((self.n_s,))}
        schema = Schema(reward=None, **fields)
        self._memory = Memory(schema, memory_size, sampler=Uniform(replace=False), seed=seed_of(seed))
        self.all_s, self.all_a, self.all_r, self.all_done, self.all_s_ = (self._memory.slots(name) for name in fields)
        self.t = 0

    @property
    def count(self) -> int:
        """Steps stored."""
        return len(self._memory)

    def add_memo(self, s: Any, a: Any, r: Any, done: Any, s_: Any) -> None:
        """Store a step; once all places are used, the oldest makes room."""
        action = array(a)
        if action.dtype.kind not in "iu" or action.size != 1 or not 0 <= action.reshape(()) < self.n_a:
            raise StepError((Problem("a", f"be a whole number from 0 to {self.n_a - 1}", repr(a)),))
        ended = flags_of("done", done, ())
        step = {"s": s, "a": action.reshape(()), "r": r, "done": ended, "s_": s_}
        self._memory.append(**step, terminated=bool(ended), truncated=False)
        self.t = (self.t + 1) % self.MEMORY_SIZE

    def sample(self) -> tuple[Any, ...]:
        """States, actions ``[B, 1]``, rewards ``[B, 1]``, dones ``[B, 1]`` and next states of different steps.

        B is ``BATCH_SIZE``; if there are fewer steps it is all of them, in order.
        """
        try:
            import torch
        except ModuleNotFoundError:
            raise MissingExtra("torch", "torch") from None
        if self.count < self.BATCH_SIZE:
            kept = (self.all_s, self.all_a, self.all_r, self.all_done, self.all_s_)
            s, a, r, done, s_ = (array[: self.count].copy() for array in kept)
        else:
            batch = self._memory.sample(self.BATCH_SIZE)
            s, a, r, done, s_ = batch.s, batch.a, batch.r, batch.done, batch.s_
        return (
            torch.from_numpy(s),
            torch.from_numpy(a).to(torch.int64).unsqueeze(-1),
            torch.from_numpy(r).unsqueeze(-1),
            torch.from_numpy(done).to(torch.float32).unsqueeze(-1),
            torch.from_numpy(s_),
        )


def _lone(value: Any, shape: tuple[int, ...]) -> Any:
    """A number as the array of one that is meant."""
    return np.reshape(plain(value), 1) if shape == (1,) and np.ndim(plain(value)) == 0 else value
