"""Buffers of MADDPG codes that were lists: transitions that are pushed, and one rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from relive.compat.checks import array, at_least, flags_of, plain
from relive.compat.drawing import seed_of
from relive.compat.nests import in_nest
from relive.errors import NotEnoughRows, Problem, StepError
from relive.memory import Memory, Uniform, targets
from relive.memory.batch import entry
from relive.schema import Field, Schema
from relive.types import Array

__all__ = ["PolicyBuffer", "ReplayBuffer"]


_NAMES = ("state", "action", "reward", "next_state", "done")


@final
class ReplayBuffer:
    """Whole transitions, first in, first out; their shapes are those of the first one.

    A state may be an array, a dict of them, or a list of agents' arrays that differ.
    """

    def __init__(self, capacity: int, *, seed: int | None = None) -> None:
        self.capacity, self.position = at_least("capacity", capacity, 1), 0
        self._seed = seed_of(seed)
        self._fields: dict[str, Any] = {}
        self._memory: Memory | None = None

    def push(self, state: Any, action: Any, reward: Any, next_state: Any, done: Any) -> None:
        """Store a transition; once there are ``capacity``, the oldest makes room."""
        ended = flags_of("done", done, array(done).shape)
        step = dict(zip(_NAMES, (state, action, reward, next_state, ended), strict=True))
        flags = {"terminated": bool(ended.all()), "truncated": False}
        memory, fields = self._memory, self._fields
        if memory is None or self.capacity == 1:
            fields = _fields_of(step)
            memory = self._make(fields, self._seed)
            memory.append(**step, **flags)
        else:
            try:
                memory.append(**step, **flags)
            except StepError:
                more = _fields_of(step)
                wider = {name: _wider(fields[name], more[name]) for name in fields}
                if wider == fields:
                    raise
                fields, memory = wider, self._moved(wider, memory)
                memory.append(**step, **flags)
        self._memory, self._fields = memory, fields
        self.position = (self.position + 1) % self.capacity

    def _make(self, fields: dict[str, Any], seed: int) -> Memory:
        schema = Schema(**fields)
        return Memory(schema, max(2, self.capacity), sampler=Uniform(replace=False), seed=seed)

    def _moved(self, fields: dict[str, Any], memory: Memory) -> Memory:
        """What is there, in fields that hold more: floats came where there were whole numbers."""
        moved = self._make(fields, 0)
        moved.random_state = memory.random_state
        rows = {name: in_nest(field, name, lambda path: memory[path]) for name, field in self._fields.items()}
        moved.extend(**rows, terminated=memory["terminated"], truncated=memory["truncated"])
        return moved

    def sample(self, batch_size: int) -> tuple[Any, ...]:
        """States, actions, rewards, next states and dones of different transitions.

        Arrays ``[batch_size, ...]``; tuples of as many dicts or lists where these were pushed.
        """
        if self._memory is None:
            raise NotEnoughRows("buffer", f"hold {batch_size} transitions", "none")
        batch = self._memory.sample(batch_size)
        return tuple(_rows(self._fields[name], name, lambda path: entry(batch, path), batch_size) for name in _NAMES)

    @property
    def buffer(self) -> list[tuple[Any, ...]]:
        """The transitions by their places; copies."""
        memory = self._memory
        if memory is None:
            return []
        found = [
            _rows(self._fields[name], name, lambda path: memory.slots(path)[: len(self)].copy(), len(self))
            for name in _NAMES
        ]
        return list(zip(*found, strict=True))

    def __len__(self) -> int:
        return 0 if self._memory is None else len(self._memory)


class PolicyBuffer(list[Any]):
    """One rollout: a list of steps, objects with ``s``, ``a`` and ``r``, and ``done`` where an episode ended."""

    def push(self, experience: Any) -> None:
        """Add a step."""
        self.append(experience)

    def sample(self, gamma: float) -> Iterator[tuple[Any, ...]]:
        """Advantages, states and actions of all steps, in order: a tuple of each; nothing if there is no step.

        An advantage is the discounted sum of the rewards from there to the end of the episode, less the mean of these
        sums, over their standard deviation.
        """
        if not self:
            return iter(())
        rewards = np.array([[plain(step.r)] for step in self], np.float32).reshape(-1, 1)
        ended = [[bool(flags_of("done", getattr(step, "done", False), ()))] for step in self]
        returns = targets.discounted_returns(rewards, terminated=np.array(ended), gamma=gamma)
        advantages = targets.normalize(returns)[:, 0]
        steps = ((advantage, step.s, step.a) for advantage, step in zip(advantages, self, strict=True))
        return zip(*steps, strict=True)


def _fields_of(step: Mapping[str, Any]) -> dict[str, Any]:
    """Fields for transitions like one."""
    fields = {name: _like(name, value) for name, value in step.items()}
    fields["state"] = fields["next_state"] = _wider(fields["state"], fields["next_state"])
    return fields


def _like(name: str, value: Any) -> Any:
    """A field for values like one, or a nest of them; float64 is kept as float32."""
    if isinstance(value, Mapping):
        return {key: _like(f"{name}/{key}", inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) and _ragged(value):
        return tuple(_like(f"{name}/{place}", inner) for place, inner in enumerate(value))
    given = array(value)
    if given.dtype.kind not in "biuf":
        raise StepError((Problem(name, "be numbers", type(value).__name__),))
    dtype = "float32" if given.dtype.kind == "f" or name == "reward" else given.dtype
    return Field(given.shape, dtype, role="plain")


def _ragged(values: Any) -> bool:
    if any(isinstance(value, Mapping) for value in values):
        return True
    return len({np.shape(plain(value)) for value in values if not isinstance(value, (list, tuple))}) > 1 or any(
        isinstance(value, (list, tuple)) and len(value) != len(values[0]) for value in values if np.ndim(values[0])
    )


def _wider(one: Any, other: Any) -> Any:
    """A field that holds the values of two, where one can; otherwise the first."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: _wider(one[key], other[key]) for key in one}
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return tuple(_wider(a, b) for a, b in zip(one, other, strict=True))
    if not isinstance(one, Field) or not isinstance(other, Field) or one.dtype == other.dtype:
        return one
    floats = "f" in (one.dtype.kind, other.dtype.kind)
    return Field(one.shape, "float32" if floats else np.result_type(one.dtype, other.dtype), role="plain")


def _rows(field: Any, path: str, value: Any, count: int) -> Any:
    """An array of all rows; where the field is a nest, a nest for each."""
    if isinstance(field, Field):
        return value(path)
    arrays: dict[str, Array] = {}
    in_nest(field, path, lambda leaf: arrays.update({leaf: value(leaf)}))

    def row(k: int) -> Any:
        found = in_nest(field, path, lambda leaf: arrays[leaf][k])
        return list(found) if isinstance(found, tuple) else found

    return tuple(row(k) for k in range(count))
