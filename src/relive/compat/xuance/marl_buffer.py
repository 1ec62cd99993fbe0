"""What XuanCe's buffers for many agents have in common: values by agent, ``{name: {agent: array}}``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from relive.compat.checks import at_least, flags_of, names, per_environment, within
from relive.compat.nests import field_of, field_of_shape
from relive.compat.saving import Saveable, exclusive
from relive.compat.xuance.agents import Agents, Shared, spaces_by_agent
from relive.compat.xuance.slots import Slots
from relive.errors import Problem, StepError
from relive.memory import Memory
from relive.schema import Field
from relive.types import Array

__all__ = ["FLAG", "NUMBER", "BaseBuffer", "Kept", "StepsBuffer", "field_name"]

Kept: TypeAlias = Agents | Shared

NUMBER = Field((), "float32", role="plain")
FLAG = Field((), "bool", role="plain")


def field_name(key: str) -> str:
    """The field of a documented name; a schema does not allow all of them."""
    return "value" if key == "values" else key


class BaseBuffer(ABC):
    """A memory of many agents' steps in parallel environments.

    Args:
        agent_keys: The agents' names.
        state_space: A space or a shape; None if there is no state.
        observation_space: A space or a shape by agent; they may differ.
        buffer_size: Steps of all environments together.
    """

    _optional: frozenset[str] = frozenset({"agent_mask", "log_pi_old"})
    _computed: frozenset[str] = frozenset()

    def __init__(
        self,
        agent_keys: Sequence[str],
        state_space: Any = None,
        observation_space: Any = None,
        action_space: Any = None,
        num_envs: int = 1,
        buffer_size: int = 1,
    ) -> None:
        self.agent_keys = names("agent_keys", agent_keys)
        self.state_space, self.observation_space, self.action_space = state_space, observation_space, action_space
        self.n_envs = at_least("n_envs", num_envs, 1)
        self.buffer_size = at_least("buffer_size", buffer_size, 1)
        self.n_size = per_environment(self.buffer_size, self.n_envs)
        self.ptr, self.size = 0, 0

    @property
    def full(self) -> bool:
        """Whether every new step overwrites an old one."""
        return self.size >= self.n_size

    @abstractmethod
    def store(self, *args: Any, **kwargs: Any) -> None:
        """Store one step of every environment."""

    @abstractmethod
    def clear(self, *args: Any) -> None:
        """Forget everything."""

    @abstractmethod
    def sample(self, *args: Any) -> Any:
        """A batch by name."""

    @abstractmethod
    def finish_path(self, *args: Any, **kwargs: Any) -> None:
        """Work out what is known only when an episode has ended."""

    def _options(self, kwargs: Mapping[str, Any]) -> None:
        """What all of them take by name beside what is documented."""
        self.store_global_state = self.state_space is not None
        self.use_actions_mask = bool(kwargs.get("use_actions_mask", False))
        self.avail_actions_shape = kwargs.get("avail_actions_shape")

    def _of_agents(self, field: Field, *, observed: bool = False) -> Agents:
        return Agents(dict.fromkeys(self.agent_keys, field), observed=observed)

    def _seen(self, *, observed: bool = False) -> Agents:
        return Agents(spaces_by_agent("obs_space", self.observation_space, self.agent_keys), observed=observed)

    def _done(self) -> Agents:
        return Agents(spaces_by_agent("act_space", self.action_space, self.agent_keys))

    def _state(self, *, observed: bool = False) -> dict[str, Kept]:
        """The state, if there is one."""
        if self.state_space is None:
            return {}
        field = field_of("state_space", self.state_space)
        return {"state": Shared(Field(field.shape, field.dtype, role="observed" if observed else "plain"))}

    def _available(self, *, observed: bool = False) -> dict[str, Kept]:
        """Which actions are available, if masks are used."""
        if not self.use_actions_mask:
            return {}
        shapes = spaces_by_agent("avail_actions_shape", self.avail_actions_shape, self.agent_keys)
        flags = {key: Field(field.shape, "bool", role="plain") for key, field in shapes.items()}
        return {"avail_actions": Agents(flags, observed=observed)}

    def _mean_action(self, kwargs: Mapping[str, Any], *, observed: bool = False) -> Agents:
        """The mean action of an agent's neighbours."""
        self.n_actions_max = at_least("n_actions_max", kwargs.get("n_actions_max"), 1)
        self.prob_space = (self.n_actions_max,)
        return self._of_agents(field_of_shape("n_actions_max", self.n_actions_max), observed=observed)

    def _step(self, kept: Mapping[str, Kept], step_data: Mapping[str, Any]) -> dict[str, Any]:
        """A step's values as they are stored, by field; those that are worked out later are zero.

        Raises:
            StepError: With every name that is missing or does not fit.
        """
        lead, step, problems = (self.n_envs,), {}, list[Problem]()
        for key, kind in kept.items():
            given = step_data.get(key)
            if key in self._computed or (given is None and key in self._optional):
                step[field_name(key)] = kind.zeros(lead)
                if key == "agent_mask":
                    step[key][:] = True
            elif given is None:
                problems.append(Problem(key, "be given", "nothing"))
            else:
                try:
                    step[field_name(key)] = kind.packed(key, given, lead)
                except StepError as error:
                    problems += error.problems
        if problems:
            raise StepError(tuple(problems))
        spaces = getattr(self.action_space, "spaces", self.action_space)
        for key in self.agent_keys:
            within(f"actions/{key}", spaces[key], step_data["actions"][key])
        return step

    def _truncated(self, step_data: Mapping[str, Any]) -> Array:
        """Which environments were cut off, as far as the step tells."""
        given = step_data.get("truncations")
        if given is None:
            return np.zeros(self.n_envs, bool)
        return flags_of("truncations", given, (self.n_envs,))


class StepsBuffer(BaseBuffer, Saveable):
    """A buffer whose steps lie in slots: ``data[name][agent]`` is an array ``[n_envs, n_size, ...]``, a view."""

    def _setup(self, kept: dict[str, Kept], seed: int | None) -> None:
        at_least("buffer_size", self.buffer_size, 2 * self.n_envs)
        self._kept = kept
        fields = {field_name(key): kind.field for key, kind in kept.items()}
        self._slots = Slots(fields, self.n_envs, self.n_size, seed=seed)
        self._expose()

    def _expose(self) -> None:
        self.data: dict[str, Any] = {
            key: kind.unpacked(self._slots.arrays(field_name(key)), 2) for key, kind in self._kept.items()
        }
        self.data_keys = self.data.keys()
        self.ptr, self.size = self._slots.ptr, self._slots.size

    @exclusive
    def clear(self) -> None:
        """Forget everything."""
        self._slots.clear()
        self._expose()

    @exclusive
    def store(self, **step_data: Any) -> None:
        """Store one step of every environment: arrays ``[n_envs, ...]`` by name and agent; other names are passed over.

        ``agent_mask`` may be left out (all agents are alive), and ``log_pi_old`` (zeros) by algorithms that have none.
        ``truncations`` ``[n_envs]`` tells which environments were cut off by a time limit.

        Raises:
            StepError: With every name that is missing or does not fit. Nothing is stored.
        """
        step = self._step(self._kept, step_data)
        terminated = step["terminals"].reshape(self.n_envs, -1).all(axis=1)
        self._slots.append(step, terminated, self._truncated(step_data))
        self.ptr, self.size = self._slots.ptr, self._slots.size

    def _of_batch(self, batch: Any, names: Iterable[str]) -> dict[str, Any]:
        return {key: self._kept[key].unpacked(self._slots.of_batch(field_name(key), batch), 1) for key in names}

    @property
    def truncations(self) -> Array:
        """Which steps were truncated, as far as ``store`` got ``truncations``, ``[n_envs, n_size]``; a copy."""
        return self._slots.truncations()

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        return self._slots.memory, {"count": self._slots.count}

    def _facts(self) -> dict[str, Any]:
        return {"agent_keys": self.agent_keys}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._slots.adopt(memory, notes["count"])
        self._expose()
