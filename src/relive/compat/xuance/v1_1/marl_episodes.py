"""Episodes of many agents: gathered step by step in every environment, kept padded to the longest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from relive.compat.checks import at_least, flags_of, index, stored, within
from relive.compat.drawing import seed_of
from relive.compat.nests import field_of, field_of_shape
from relive.compat.saving import Saveable, exclusive
from relive.compat.xuance.v1_1.marl_buffer import BaseBuffer, field_name, shape_of
from relive.errors import OptionError, Problem, SchemaError, StepError
from relive.memory import Batch, Episodes, Memory
from relive.schema import Field, Schema
from relive.types import Array

__all__ = ["EpisodesBuffer", "Part"]


class Part(NamedTuple):
    """One array of an episode."""

    field: Field
    """One step of one agent, or of the environment."""
    agents: bool
    """Whether every agent has its own: ``[agents, T, ...]`` instead of ``[T, ...]``."""
    through: bool = False
    """Whether there is one more, after the last step."""


class EpisodesBuffer(BaseBuffer, Saveable):
    """The newest ``buffer_size`` episodes: ``data`` holds arrays ``[buffer_size, n_agents, T, ...]`` by name.

    Steps are gathered in ``episode_data``, arrays ``[n_envs, n_agents, T, ...]``, until their episode is finished; what
    is still there is not saved.
    """

    def _setup(self, parts: dict[str, Part], longest: int, seed: int | None) -> None:
        self.max_eps_len = at_least("max_episode_length", longest, 1)
        self.n_size = self.buffer_size
        self._part = parts
        fields = {
            field_name(key): Field((self.n_agents, *part.field.shape), part.field.dtype, role="plain")
            if part.agents
            else part.field
            for key, part in parts.items()
        }
        self._schema = Schema(reward=None, **fields)
        self._memory = self._make(seed_of(seed))
        self._episodes = 0
        self._expose()
        self.clear_episodes()

    def _make(self, seed: int | None) -> Memory:
        rows = self.max_eps_len + 1
        return Memory(self._schema, self.buffer_size * rows, window=Episodes(length=rows), seed=seed)

    def _common_parts(self, dim_act: int) -> dict[str, Part]:
        parts = {
            "obs": Part(_flat("obs_space", self.obs_space), agents=True, through=True),
            "actions": Part(_flat("act_space", self.act_space), agents=True),
            "rewards": Part(_flat("rew_space", self.rew_space), agents=True),
            "terminals": Part(
                field_of_shape("done_space", shape_of("done_space", self.done_space), dtype="bool"), agents=False
            ),
            "avail_actions": Part(
                field_of_shape("dim_act", at_least("dim_act", dim_act, 1), dtype="bool"), agents=True, through=True
            ),
            "filled": Part(Field((1,), "bool", role="plain"), agents=False),
        }
        if self.state_space is not None:
            parts["state"] = Part(_flat("state_space", self.state_space), agents=False, through=True)
        return parts

    def _expose(self) -> None:
        rows = (self.buffer_size, self.max_eps_len + 1)

        def view(key: str, part: Part) -> Array:
            slots = self._memory.slots(field_name(key))
            return self._documented(slots.reshape(*rows, *slots.shape[1:]), part)

        self.data = {key: view(key, part) for key, part in self._part.items()}
        self.keys = self.data.keys()
        self.data_shapes = {key: array.shape for key, array in self.data.items()}
        self.ptr, self.size = self._episodes % self.buffer_size, min(self._episodes, self.buffer_size)

    def _documented(self, rows: Array, part: Part) -> Array:
        """Arrays ``[B, T + 1, ...]`` as documented: agents before time, and only as many steps as there can be."""
        rows = rows if part.through else rows[:, : self.max_eps_len]
        return rows.swapaxes(1, 2) if part.agents else rows

    @property
    def full(self) -> bool:
        """Whether every new episode replaces an old one."""
        return bool(self.size >= self.buffer_size)

    @exclusive
    def clear(self) -> None:
        """Forget all stored episodes; those still going on stay."""
        state = self._memory.random_state
        self._memory = self._make(0)
        self._memory.random_state = state
        self._episodes = 0
        self._expose()

    def clear_episodes(self) -> None:
        """Forget the episodes that are still being gathered."""
        self.episode_data: dict[str, Array] = {
            key: np.zeros(self._episode_shape(part), part.field.dtype) for key, part in self._part.items()
        }
        self.episode_data["avail_actions"][:] = True
        self._length = np.zeros(self.n_envs, np.int64)  # of the finished ones
        self._written = np.zeros((self.n_envs, self.max_eps_len), bool)

    def _episode_shape(self, part: Part) -> tuple[int, ...]:
        agents = (self.n_agents,) if part.agents else ()
        return (self.n_envs, *agents, self.max_eps_len + part.through, *part.field.shape)

    def store(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Refused: steps of different environments end at different times.

        Raises:
            OptionError: Always.
        """
        remedy = "Use store_transitions, finish_path and store_episodes."
        raise OptionError("store", "not be called on a buffer of episodes", "a step", remedy)

    def _gather(self, t_envs: Any, step: dict[str, Any]) -> None:
        """Put one step of every environment into its cell: environment i at time ``t_envs[i]``."""
        given = np.asarray(t_envs)
        if given.dtype.kind not in "iu" or given.shape not in ((), (self.n_envs,)):
            rule = f"be one whole number or {self.n_envs}"
            raise OptionError("t_envs", rule, repr(t_envs), "Environment i is at time t_envs[i].")
        times = np.broadcast_to(given, (self.n_envs,))
        going = self._length == 0
        if (~going & (times == 0)).any():
            env = int((~going & (times == 0)).argmax())
            rule = f"be called before environment {env} begins another episode"
            raise StepError((Problem("store_episodes", rule, "its first step"),))
        if (going & ((times < 0) | (times >= self.max_eps_len))).any():
            raise OptionError("t_envs", f"be from 0 to {self.max_eps_len - 1}", repr(t_envs))
        within("actions", self.act_space, step["actions"])
        problems: list[Problem] = []
        arrays = {key: self._stored(key, key, value, (self.n_envs,), problems) for key, value in step.items()}
        if problems:
            raise StepError(tuple(problems))
        envs = np.flatnonzero(going)  # what comes after an environment's end is not looked at
        for key, array in arrays.items():
            cells = (envs, slice(None), times[envs]) if self._part[key].agents else (envs, times[envs])
            self.episode_data[key][cells] = np.asarray(array)[envs]
        self._written[envs, times[envs]] = True

    def _stored(self, key: str, name: str, value: Any, lead: tuple[int, ...], problems: list[Problem]) -> Array | None:
        """A value as it is stored; None and a problem if it does not fit."""
        field, agents = self._part[key].field, (self.n_agents,) if self._part[key].agents else ()
        if value is None:
            problems.append(Problem(name, "be given", "nothing"))
            return None
        if field.dtype != np.bool_:
            return stored(name, value, (*lead, *agents, *field.shape), field.dtype, problems)
        try:
            return flags_of(name, value, (*lead, *agents, *field.shape))
        except StepError as error:
            problems += error.problems
            return None

    def _end(self, i_env: Any, next_t: Any, terminal_data: tuple[Any, ...]) -> list[tuple[Array, Array]]:
        """What is to be written where when an environment's episode has ended."""
        i_env = index("i_env", i_env, 0, self.n_envs - 1)
        next_t = index("next_t", next_t, 1, self.max_eps_len)
        if len(terminal_data) != 4:
            rule = "be the next observations, states, available actions and filled"
            raise OptionError("terminal_data", rule, f"{len(terminal_data)} things")
        if not self._written[i_env, :next_t].all():
            there = int(self._written[i_env].argmin())
            rule = f"be at most the {there} steps of environment {i_env} that were stored"
            raise OptionError("next_t", rule, next_t, "Call store_transitions for every step.")
        problems: list[Problem] = []
        cells: list[tuple[Array, Array]] = []
        for key, values in zip(("obs", "state", "avail_actions", "filled"), terminal_data, strict=True):
            if key not in self._part:
                continue
            lead, time = ((self.max_eps_len,), ()) if key == "filled" else ((), (next_t,))
            value = None if values is None else values[i_env]
            found = self._stored(key, f"{key} of environment {i_env}", value, lead, problems)
            agents = (slice(None),) if self._part[key].agents else ()
            cells.append((self.episode_data[key][(i_env, *agents, *time)], np.asarray(found)))
        if problems:
            raise StepError(tuple(problems))
        return cells

    def _close(self, i_env: int, next_t: int, cells: list[tuple[Array, Array]]) -> None:
        for cell, value in cells:
            cell[...] = value
        self._length[i_env] = next_t

    @exclusive
    def store_episodes(self) -> None:
        """Store the episodes that were finished; those still going on stay where they are."""
        for env in np.flatnonzero(self._length):
            length, rows = int(self._length[env]), {}
            for key, part in self._part.items():
                staged = self.episode_data[key][env]
                staged = staged.swapaxes(0, 1) if part.agents else staged
                row = np.zeros((self.max_eps_len + 1, *staged.shape[1:]), staged.dtype)
                kept = length + part.through
                row[:kept] = staged[:kept]
                if key == "avail_actions":
                    row[kept:] = True
                rows[field_name(key)] = row
            ends = np.arange(self.max_eps_len + 1) == self.max_eps_len
            self._memory.extend(**rows, terminated=ends, truncated=np.zeros_like(ends))
            self._episodes += 1
            self.ptr, self.size = self._episodes % self.buffer_size, min(self._episodes, self.buffer_size)
            for key in self._part:
                self.episode_data[key][env] = key == "avail_actions"
            self._length[env] = 0
            self._written[env] = False

    def _of_batch(self, batch: Batch) -> dict[str, Array]:
        arrays = {key: self._documented(batch[field_name(key)], part) for key, part in self._part.items()}
        return {key: np.ascontiguousarray(array) for key, array in arrays.items()}

    def _starts(self, places: Array) -> Array:
        """Serials of the first rows of episodes by their places."""
        newest = self._episodes - 1
        return np.asarray((newest - (newest - places) % self.buffer_size) * (self.max_eps_len + 1))

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._memory, {"stored": self._episodes}

    def _facts(self) -> dict[str, Any]:
        return {"buffer_size": self.buffer_size, "max_episode_length": self.max_eps_len}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._memory, self._episodes = memory, int(notes["stored"])
        self._expose()
        self.clear_episodes()


def _flat(name: str, space: Any) -> Field:
    field = field_of(name, space)
    if not isinstance(field, Field):
        raise SchemaError(name, "be one space for episodes, not a nest of them", repr(space), "Flatten it.")
    return field
