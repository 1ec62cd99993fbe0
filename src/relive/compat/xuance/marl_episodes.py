"""Episodes of many agents: gathered step by step in every environment, then kept without padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from relive.compat.checks import at_least, index, stored
from relive.compat.episodes import EpisodeRing
from relive.compat.nests import in_nest
from relive.compat.saving import Saveable, exclusive
from relive.compat.xuance.agents import spaces_by_agent
from relive.compat.xuance.marl_buffer import BaseBuffer, Kept, field_name
from relive.errors import OptionError, Problem, StepError
from relive.memory import Memory, Sequence
from relive.memory.batch import entry
from relive.schema import Field, Schema
from relive.types import Array

__all__ = ["EpisodesBuffer"]


class EpisodesBuffer(BaseBuffer, Saveable):
    """The newest ``buffer_size`` episodes, of up to ``max_episode_steps``; only steps that happened take memory.

    Steps are gathered in ``episode_data[name][agent]``, arrays ``[n_envs, T, ...]``, until their episode is finished;
    what is still there is not saved.
    """

    def _setup(self, kept: dict[str, Kept], longest: int, seed: int | None) -> None:
        self.max_eps_len = at_least("max_episode_steps", longest, 1)
        self._kept = {key: kind for key, kind in kept.items() if key != "filled"}
        self._names = list(kept)
        self.obs_shape, self.act_shape = (
            {key: field.shape for key, field in spaces_by_agent(name, spaces, self.agent_keys).items()}
            for name, spaces in (("obs_space", self.observation_space), ("act_space", self.action_space))
        )
        fields = {field_name(key): kind.field for key, kind in self._kept.items()}
        schema = Schema(reward=None, **fields)
        self._ring = EpisodeRing(schema, self.buffer_size, self.max_eps_len, Sequence(self.max_eps_len), seed)
        self.data_keys = list(self._names)
        self.clear_episodes()

    @property
    def full(self) -> bool:
        """Whether every new episode replaces an old one."""
        return self.size >= self.buffer_size

    @property
    def data(self) -> Mapping[str, Any]:
        """Arrays ``[buffer_size, T, ...]`` by name and agent, made when they are asked for: copies, to be read only."""
        return _Padded(self)

    @exclusive
    def clear(self) -> None:
        """Forget all stored episodes; those still going on stay."""
        self._ring.clear()
        self.ptr, self.size = 0, 0

    @exclusive
    def clear_episodes(self) -> None:
        """Forget the episodes that are still being gathered."""
        # One more than the longest has: what is seen after its last step.
        self._staged = {key: kind.zeros((self.n_envs, self.max_eps_len + 1)) for key, kind in self._kept.items()}
        self._filled = np.zeros((self.n_envs, self.max_eps_len), bool)
        shown = {key: self._shown(kind, self._staged[key]) for key, kind in self._kept.items()}
        self.episode_data = {key: self._filled if key == "filled" else shown[key] for key in self._names}
        self.episode_data_keys = self.episode_data.keys()

    def _shown(self, kind: Kept, staged: Any) -> Any:
        """Rows ``[B, T + 1, ...]`` by agent, with as many steps as there can be."""
        rows = slice(None) if _through(kind) else slice(self.max_eps_len)
        if isinstance(staged, dict):
            return kind.unpacked({name: array[:, rows] for name, array in staged.items()}, 2)
        return kind.unpacked(staged[:, rows], 2)

    @exclusive
    def store(self, **step_data: Any) -> None:
        """Gather one step of every environment: arrays ``[n_envs, ...]`` by name and agent.

        Args:
            step_data: ``episode_steps`` tells what time it is in each environment; names that are not kept are passed
                over.

        Raises:
            StepError: With every name that is missing or does not fit. Nothing is stored.
        """
        times = np.asarray(step_data.get("episode_steps"))
        if times.dtype.kind not in "iu" or times.shape not in ((), (self.n_envs,)):
            rule = f"be one whole number or {self.n_envs}"
            raise OptionError("episode_steps", rule, repr(step_data.get("episode_steps")))
        if (times < 0).any() or (times >= self.max_eps_len).any():
            remedy = "Make the buffer with a larger max_episode_steps."
            raise OptionError("episode_steps", f"be from 0 to {self.max_eps_len - 1}", repr(times.tolist()), remedy)
        step = self._step(self._kept, step_data)
        ready = self._exact({key: step[field_name(key)] for key in self._kept}, (self.n_envs,))
        cells = (np.arange(self.n_envs), times)
        for key, value in ready.items():
            _write(self._staged[key], cells, value)
        self._filled[cells] = True

    def _exact(self, step: dict[str, Any], lead: tuple[int, ...]) -> dict[str, Any]:
        """Values as they are stored.

        Raises:
            StepError: With all that cannot be.
        """
        problems: list[Problem] = []
        ready: dict[str, Any] = {}
        for key, value in step.items():
            field = self._kept[key].field
            if isinstance(field, dict):
                ready[key] = {
                    name: stored(key, value[name], (*lead, *each.shape), each.dtype, problems)
                    for name, each in field.items()
                }
            else:
                ready[key] = stored(key, value, (*lead, *field.shape), field.dtype, problems)
        if problems:
            raise StepError(tuple(problems))
        return ready

    def _see_last(self, env: int, length: int, seen: Mapping[str, Any]) -> None:
        """Take what was seen after an environment's last step."""
        through = {key: kind for key, kind in self._kept.items() if _through(kind)}
        missing = tuple(Problem(key, "be given", "nothing") for key in through if seen.get(key) is None)
        if missing:
            raise StepError(missing)
        ready = self._exact({key: kind.packed(key, seen[key], ()) for key, kind in through.items()}, ())
        for key, value in ready.items():
            _write(self._staged[key], (env, length), value)

    @exclusive
    def store_episodes(self, i_env: int) -> None:
        """Store what was gathered of an environment as an episode."""
        env = index("i_env", i_env, 0, self.n_envs - 1)
        length = self._length(env)
        if length == 0:
            raise StepError((Problem("store", f"be called for environment {env} before its episode ends", "no step"),))
        steps: dict[str, Any] = {}
        for key, kind in self._kept.items():
            name = field_name(key)
            steps[name] = _part(self._staged[key], env, slice(0, length))
            if _through(kind):
                steps[f"final_{name}"] = _part(self._staged[key], env, slice(length, length + 1))
        terminated = bool(np.all(steps["terminals"][-1]))
        self._ring.append(steps, length, terminated=terminated)
        self.ptr, self.size = self._ring.next, self._ring.size
        for staged in self._staged.values():
            _write(staged, env, 0)
        self._filled[env] = False

    def _length(self, env: int) -> int:
        """Steps that were gathered of an environment, from the first on."""
        filled = self._filled[env]
        return len(filled) if filled.all() else int(filled.argmin())

    def _checked_length(self, name: str, env: int, steps: Any) -> int:
        """The steps of an episode, which have to be there."""
        there = self._length(env)
        length = min(index(name, steps, 1, 2**31), self.max_eps_len)
        if length > there:
            rule = f"be at most the {there} steps of environment {env} that were stored"
            raise OptionError(name, rule, length, "Call store for every step.")
        self._filled[env, length:] = False
        return length

    @exclusive
    def _read(self, places: Array) -> dict[str, Any]:
        """Episodes by name and agent, padded with zeros."""
        batch = self._ring.read(places)
        samples: dict[str, Any] = {}
        for key in self._names:
            if key == "filled":
                samples[key] = batch.mask
            else:
                kind, name = self._kept[key], field_name(key)
                samples[key] = kind.unpacked(in_nest(kind.field, name, lambda path: entry(batch, path)), 2)
        return samples

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._ring.memory, self._ring.notes()

    def _facts(self) -> dict[str, Any]:
        facts = {"buffer_size": self.buffer_size, "max_episode_steps": self.max_eps_len}
        return facts | {"agent_keys": self.agent_keys}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._ring.adopt(memory, notes)
        self.ptr, self.size = self._ring.next, self._ring.size
        self.clear_episodes()


@final
class _Padded(Mapping[str, Any]):
    """All episodes of a buffer by name, each made when it is asked for."""

    def __init__(self, buffer: EpisodesBuffer) -> None:
        self._buffer = buffer

    def __getitem__(self, key: str) -> Any:
        buffer = self._buffer
        if key not in buffer._names:
            raise KeyError(key)
        there = buffer._read(np.arange(buffer.size))[key] if buffer.size else None
        if key == "filled":
            return _room(there, (buffer.buffer_size, buffer.max_eps_len), bool)
        kind = buffer._kept[key]
        shown = buffer._shown(kind, kind.zeros((1, buffer.max_eps_len + 1)))
        if not isinstance(shown, dict):
            return _room(there, (buffer.buffer_size, *shown.shape[1:]), shown.dtype)
        return {
            agent: _room(there and there[agent], (buffer.buffer_size, *array.shape[1:]), array.dtype)
            for agent, array in shown.items()
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._buffer._names)

    def __len__(self) -> int:
        return len(self._buffer._names)


def _room(there: Array | None, shape: tuple[int, ...], dtype: Any) -> Array:
    array = np.zeros(shape, dtype)
    if there is not None:
        array[: len(there)] = there
    array.flags.writeable = False
    return array


def _through(kind: Kept) -> bool:
    """Whether there is one more than there are steps, after the last."""
    field: Field = next(iter(kind.field.values())) if isinstance(kind.field, dict) else kind.field
    return field.role == "observed"


def _write(staged: Any, cells: Any, values: Any) -> None:
    if isinstance(staged, dict):
        for name, array in staged.items():
            array[cells] = values if np.isscalar(values) else values[name]
    else:
        staged[cells] = values


def _part(staged: Any, env: int, steps: slice) -> Any:
    if isinstance(staged, dict):
        return {name: array[env, steps] for name, array in staged.items()}
    return staged[env, steps]
