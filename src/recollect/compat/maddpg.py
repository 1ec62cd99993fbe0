"""Buffers of MADDPG codes by their own names, each a few lines on one memory.

==================  ====================================================================================
``Buffer``          one dict entry an agent and thing: ``o_0``, ``u_0``, ``r_0``, ``o_next_0``, ``o_1`` ...
``PackedMemory``    one matrix, a row ``[s, a, r, s_]`` a step
``ReplayBuffer``    ``push`` of whole transitions
``ReplayMemory``    one array a thing, ``add_memo``; samples are tensors
``PolicyBuffer``    one rollout, sampled with discounted and standardised returns
==================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, TypeAlias, final

import numpy as np

from recollect.compat.checks import at_least, flags_of, plain, stored
from recollect.compat.drawing import seed_of
from recollect.compat.saving import Lasting
from recollect.errors import MissingExtra, NotEnoughRows, OptionError, Problem, StepError
from recollect.memory import Memory, Uniform, targets
from recollect.schema import Field, Schema

__all__ = ["Buffer", "PackedMemory", "PolicyBuffer", "ReplayBuffer", "ReplayMemory"]

Array: TypeAlias = np.ndarray[Any, Any]


def _plain(shape: Any = (), dtype: Any = "float32") -> Field:
    return Field(shape, dtype, role="plain")


@final
class Buffer(Lasting):
    """Steps of agents with different shapes, first in, first out; threads may store and sample at once.

    Args:
        args: Has ``buffer_size``, ``n_agents``, ``obs_shape`` and ``action_shape``, one whole number an agent.
        dones: Keep whether a step was an agent's last as well, as ``done`` ``[agents]``.
        dtype: Of observations, actions and rewards.
    """

    def __init__(self, args: Any, *, seed: int | None = None, dones: bool = False, dtype: Any = "float32") -> None:
        self.args, self.size = args, args.buffer_size
        fields: dict[str, Any] = {}
        for name in ("obs_shape", "action_shape"):
            if len(getattr(args, name)) != args.n_agents:
                raise OptionError(f"args.{name}", f"have {args.n_agents} entries", len(getattr(args, name)))
        for i in range(args.n_agents):
            fields[f"o_{i}"] = fields[f"o_next_{i}"] = _plain((args.obs_shape[i],), dtype)
            fields[f"u_{i}"], fields[f"r_{i}"] = _plain((args.action_shape[i],), dtype), _plain((), dtype)
        if dones:
            fields["done"] = _plain((args.n_agents,), "bool")
        self._dones = dones
        self._adopt(
            Memory(Schema(reward=None, **fields), at_least("buffer_size", self.size, 2), seed=seed_of(seed)), {}
        )

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._memory, {}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:  # noqa: ARG002
        self._memory = memory
        self.buffer = {name: memory.slots(name) for name in memory}

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
        ended = flags_of("done", done, (self.args.n_agents,) if np.ndim(done) else ())
        step: dict[str, Any] = {}
        for name, values in (("o", o), ("u", u), ("r", r), ("o_next", o_next)):
            if len(values) < self.args.n_agents:
                rule = f"hold one value for each of {self.args.n_agents} agents"
                raise StepError((Problem(name, rule, str(len(values))),))
            for i in range(self.args.n_agents):
                step[f"{name}_{i}"] = values[i]
        if self._dones:
            step["done"] = np.broadcast_to(ended, self.args.n_agents)
        self._memory.append(**step, terminated=bool(ended.all()), truncated=False)

    def sample(self, batch_size: int) -> dict[str, Array]:
        """Steps by name, ``[batch_size, ...]``."""
        batch = self._memory.sample(batch_size)
        return {name: batch[name] for name in self.buffer}


@final
class PackedMemory:
    """Steps as rows ``[s, a, r, s_]`` of one matrix."""

    def __init__(self, s_dim: int, a_dim: int, capacity: int, *, seed: int | None = None) -> None:
        self.s_dim, self.a_dim, self.capacity = s_dim, a_dim, at_least("capacity", capacity, 2)
        self.pointer = 0
        self._memory = Memory(Schema(reward=None, row=_plain((2 * s_dim + a_dim + 1,))), capacity, seed=seed_of(seed))

    @property
    def memory(self) -> Array:
        """The matrix ``[capacity, 2 s_dim + a_dim + 1]``, a view."""
        return self._memory.slots("row")

    def store_transition(self, s: Any, a: Any, r: float, s_: Any) -> None:
        """Store a step; once all rows are used, the oldest makes room."""
        parts = (("s", s, (self.s_dim,)), ("a", a, (self.a_dim,)), ("r", r, ()), ("s_", s_, (self.s_dim,)))
        problems: list[Problem] = []
        row = [stored(name, value, shape, "float32", problems) for name, value, shape in parts]
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
class ReplayBuffer:
    """Whole transitions; shapes and dtypes are those of the first one."""

    _NAMES = ("state", "action", "reward", "next_state", "done")

    def __init__(self, capacity: int, *, seed: int | None = None) -> None:
        self.capacity, self.position = at_least("capacity", capacity, 2), 0
        self._seed = seed_of(seed)
        self._memory: Memory | None = None

    def push(self, state: Any, action: Any, reward: Any, next_state: Any, done: Any) -> None:
        """Store a transition; once there are ``capacity``, the oldest makes room."""
        ended = flags_of("done", done, np.shape(done))
        step = dict(zip(self._NAMES, (state, action, reward, next_state, ended), strict=True))
        memory = self._memory
        if memory is None:
            fields = {name: _like(name, step["state" if name == "next_state" else name]) for name in step}
            memory = Memory(Schema(**fields), self.capacity, sampler=Uniform(replace=False), seed=self._seed)
        memory.append(**step, terminated=bool(ended.all()), truncated=False)
        self._memory = memory
        self.position = (self.position + 1) % self.capacity

    def sample(self, batch_size: int) -> tuple[Array, ...]:
        """States, actions, rewards, next states and dones of different transitions."""
        if self._memory is None:
            raise NotEnoughRows("buffer", f"hold {batch_size} transitions", "none")
        batch = self._memory.sample(batch_size)
        return tuple(batch[name] for name in self._NAMES)

    @property
    def buffer(self) -> list[tuple[Any, ...]]:
        """The transitions by their places; copies."""
        if self._memory is None:
            return []
        return list(zip(*(self._memory[name].copy() for name in self._NAMES), strict=True))

    def __len__(self) -> int:
        return 0 if self._memory is None else len(self._memory)


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
        self.n_s, self.n_a = n_s, n_a
        self.MEMORY_SIZE, self.BATCH_SIZE = memory_size, batch_size
        fields = {"s": _plain((n_s,)), "a": _plain((), "uint8" if n_a <= 256 else "int64"), "r": _plain()}
        fields |= {"done": _plain((), "bool"), "s_": _plain((n_s,))}
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
        action = np.asarray(plain(a))
        if action.dtype.kind not in "iu" or action.size != 1 or not 0 <= action.reshape(()) < self.n_a:
            raise StepError((Problem("a", f"be a whole number from 0 to {self.n_a - 1}", repr(a)),))
        ended = flags_of("done", done, ())
        step = {"s": s, "a": action.reshape(()), "r": r, "done": ended, "s_": s_}
        self._memory.append(**step, terminated=bool(ended), truncated=False)
        self.t = (self.t + 1) % self.MEMORY_SIZE

    def sample(self) -> tuple[Any, ...]:
        """States, actions ``[B, 1]``, rewards ``[B, 1]``, dones ``[B, 1]`` and next states of different steps.

        B is ``BATCH_SIZE``, or as many steps as there are.
        """
        try:
            import torch
        except ModuleNotFoundError:
            raise MissingExtra("torch", "torch") from None
        batch = self._memory.sample(min(self.BATCH_SIZE, max(1, self.count)))
        return (
            torch.from_numpy(batch.s),
            torch.from_numpy(batch.a).to(torch.int64).unsqueeze(-1),
            torch.from_numpy(batch.r).unsqueeze(-1),
            torch.from_numpy(batch.done).to(torch.float32).unsqueeze(-1),
            torch.from_numpy(batch.s_),
        )


@final
class PolicyBuffer:
    """One rollout in the order in which it was pushed; shapes and dtypes are those of the first step."""

    def __init__(self) -> None:
        self._memory: Memory | None = None

    def push(self, experience: Any) -> None:
        """Add a step: an object with ``s``, ``a`` and ``r``, and ``done`` where an episode ended."""
        step = {"s": experience.s, "a": experience.a, "r": experience.r}
        done = bool(flags_of("done", getattr(experience, "done", False), ()))
        memory = self._memory
        if memory is None:
            fields = {name: _like(name, value) for name, value in step.items()}
            memory = Memory(Schema(reward=None, **fields), 1024)
        elif memory.full:
            memory = _twice_as_large(memory)
        memory.append(**step, terminated=done, truncated=False)
        self._memory = memory

    append = push

    def sample(self, gamma: float) -> Iterator[tuple[Any, ...]]:
        """Advantages, states and actions of all steps, in order: a tuple of each.

        An advantage is the discounted sum of the rewards from there to the end of the episode, less the mean of these
        sums, over their standard deviation.
        """
        if self._memory is None:
            raise NotEnoughRows("buffer", "hold a step to be sampled", "none")
        rewards = self._memory["r"].reshape(-1, 1)
        returns = targets.discounted_returns(rewards, terminated=self._memory["terminated"][:, None], gamma=gamma)
        advantages = targets.normalize(returns)[:, 0]
        return iter((tuple(advantages), tuple(self._memory["s"].copy()), tuple(self._memory["a"].copy())))

    def clear(self) -> None:
        """Forget the rollout."""
        self._memory = None

    def __iter__(self) -> Iterator[Any]:
        """The steps, as objects with ``s``, ``a`` and ``r``."""
        arrays = {} if self._memory is None else {name: self._memory[name] for name in self._memory}
        for k in range(len(self)):
            yield SimpleNamespace(**{name: array[k] for name, array in arrays.items()})

    def __len__(self) -> int:
        return 0 if self._memory is None else len(self._memory)


def _like(name: str, value: Any) -> Field:
    """A field for values like one; float64 is kept as float32."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise StepError((Problem(name, "be numbers", type(value).__name__),))
    return _plain(array.shape, "float32" if array.dtype.kind == "f" or name in ("reward", "r") else array.dtype)


def _twice_as_large(memory: Memory) -> Memory:
    larger = Memory(memory.schema, 2 * memory.capacity)
    fields = {name: memory[name] for name in memory}
    larger.extend(**fields, terminated=memory["terminated"], truncated=memory["truncated"])
    return larger
