"""What XuanCe's buffers for many agents have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from relive.compat.checks import at_least, flags_of, per_environment, within
from relive.compat.nests import field_of, field_of_shape
from relive.compat.saving import Saveable, exclusive
from relive.compat.xuance.slots import Slots
from relive.errors import OptionError, Problem, StepError
from relive.memory import Memory
from relive.messages import brief
from relive.schema import Field
from relive.types import Array

__all__ = ["BaseBuffer", "StepsBuffer", "field_name", "missing", "shape_of"]

# Names that a schema does not allow.
_RENAMED = {"values": "value"}


class BaseBuffer(ABC):
    """A memory of many agents' steps in parallel environments.

    Args:
        args: n_agents, state_space, obs_space, act_space, rew_space, done_space, n_envs and buffer_size. A space is a
            shape or a Gymnasium space; ``state_space`` may be None.
    """

    n_size: int = 0

    def __init__(self, *args: Any) -> None:
        (
            self.n_agents,
            self.state_space,
            self.obs_space,
            self.act_space,
            self.rew_space,
            self.done_space,
            self.n_envs,
            self.buffer_size,
        ) = args
        self.n_agents = at_least("n_agents", self.n_agents, 1)
        self.n_envs = at_least("n_envs", self.n_envs, 1)
        self.buffer_size = at_least("buffer_size", self.buffer_size, 1)
        self.ptr, self.size = 0, 0
        if int(np.prod(shape_of("done_space", self.done_space))) not in (1, self.n_agents):
            rule = f"hold one flag, or one for each of {self.n_agents} agents"
            raise OptionError("done_space", rule, list(shape_of("done_space", self.done_space)))

    @property
    def full(self) -> bool:
        """Whether every new step overwrites an old one."""
        return 0 < self.n_size <= self.size

    @abstractmethod
    def store(self, *args: Any, **kwargs: Any) -> None:
        """Store one step of every environment."""

    @abstractmethod
    def clear(self, *args: Any) -> None:
        """Forget everything."""

    @abstractmethod
    def sample(self, *args: Any) -> Any:
        """A batch by name."""

    def finish_path(self, *args: Any) -> None:  # noqa: B027 - buffers without returns have nothing to do
        """Work out what is known only when an episode has ended."""


class StepsBuffer(BaseBuffer, Saveable):
    """A buffer whose steps lie in slots: ``data`` holds an array ``[n_envs, n_size, ...]`` by name."""

    _computed: frozenset[str] = frozenset()
    _optional: frozenset[str] = frozenset({"agent_mask", "log_pi_old"})

    def _setup(self, fields: dict[str, Any], *, seed: int | None) -> None:
        self.n_size = per_environment(at_least("buffer_size", self.buffer_size, 2 * self.n_envs), self.n_envs)
        self._names = list(fields)
        self._needed = [key for key in fields if key not in self._computed | self._optional]
        by_field = {field_name(key): field for key, field in fields.items()}
        self._slots = Slots(by_field, self.n_envs, self.n_size, seed=seed)
        self._expose()

    def _common_fields(self) -> dict[str, Any]:
        agents = (self.n_agents,)
        fields = {
            "obs": field_of("obs_space", self.obs_space, agents),
            "actions": field_of("act_space", self.act_space, agents),
            "rewards": field_of("rew_space", self.rew_space),
            "terminals": field_of_shape("done_space", shape_of("done_space", self.done_space), dtype="bool"),
            "agent_mask": Field(agents, "bool", role="plain"),
        }
        if self.state_space is not None:
            fields["state"] = field_of("state_space", self.state_space)
        return fields

    def _expose(self) -> None:
        self.data: dict[str, Any] = {key: self._slots.arrays(field_name(key)) for key in self._names}
        self.keys = self.data.keys()
        self.data_shapes = {key: getattr(array, "shape", None) for key, array in self.data.items()}
        self.ptr, self.size = self._slots.ptr, self._slots.size

    @exclusive
    def clear(self) -> None:
        """Forget everything."""
        self._slots.clear()
        self._expose()

    @exclusive
    def store(self, step_data: Mapping[str, Any]) -> None:
        """Store one step of every environment: arrays ``[n_envs, ...]`` by name; other names are passed over.

        ``agent_mask`` may be left out (all agents are alive), and ``log_pi_old`` (zeros) by algorithms that have none.
        ``truncations`` ``[n_envs]`` tells which environments were cut off by a time limit.

        Raises:
            StepError: With every name that is missing or does not fit. Nothing is stored.
        """
        missing(step_data, self._needed)
        within("actions", self.act_space, step_data["actions"])
        step = {
            field_name(key): step_data[key]
            for key in self._names
            if key not in self._computed and step_data.get(key) is not None
        }
        if "agent_mask" in self.data and "agent_mask" not in step:
            step["agent_mask"] = np.ones((self.n_envs, self.n_agents), bool)
        if "log_pi_old" in self.data and "log_pi_old" not in step:
            step["log_pi_old"] = np.zeros((self.n_envs, self.n_agents), np.float32)
        for key in ("terminals", "agent_mask"):
            if key in step:
                step[key] = flags_of(key, step[key], (self.n_envs, *self._slots.fields[key].shape))
        for key in self._computed:
            step[field_name(key)] = np.zeros((self.n_envs, *self._slots.fields[field_name(key)].shape), np.float32)
        step |= self._also(step_data, step)
        terminated = step["terminals"].reshape(self.n_envs, -1).all(axis=1)
        self._slots.append(step, terminated, self._truncated(step_data))
        self.ptr, self.size = self._slots.ptr, self._slots.size

    def _truncated(self, step_data: Mapping[str, Any]) -> Array:
        """Which environments were truncated: given for each, or for each of their agents."""
        given = step_data.get("truncations")
        if given is None:
            return np.zeros(self.n_envs, bool)
        shape = (self.n_envs, self.n_agents) if np.ndim(given) == 2 else (self.n_envs,)
        return np.asarray(flags_of("truncations", given, shape).reshape(self.n_envs, -1).all(axis=1))

    def _also(self, step_data: Mapping[str, Any], step: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Fields that a kind of buffer adds to a step."""
        return {}

    @property
    def truncations(self) -> Array:
        """Which steps were truncated, as far as ``store`` got ``truncations``, ``[n_envs, n_size]``; a copy."""
        return self._slots.truncations()

    def _of_batch(self, batch: Any) -> dict[str, Any]:
        return {key: self._slots.of_batch(field_name(key), batch) for key in self._names}

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._slots.memory, {"count": self._slots.count}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._slots.adopt(memory, notes["count"])
        self._expose()


def field_name(key: str) -> str:
    """The field of a documented name."""
    return _RENAMED.get(key, key)


def missing(data: Mapping[str, Any], needed: Iterable[str]) -> None:
    """Refuse a step that lacks names, with all of them."""
    if not isinstance(data, Mapping):
        raise OptionError("step_data", "be a dict of values by name", brief(data))
    lacking = tuple(Problem(key, "be given", "nothing") for key in needed if data.get(key) is None)
    if lacking:
        raise StepError(lacking)


def shape_of(name: str, space: Any) -> tuple[int, ...]:
    """The shape that a space stands for."""
    return tuple(field_of(name, space).shape)
