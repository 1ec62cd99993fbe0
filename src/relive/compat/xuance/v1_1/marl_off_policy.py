"""XuanCe's off-policy buffers for many agents, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive.compat.checks import at_least
from relive.compat.nests import field_of
from relive.compat.saving import exclusive
from relive.compat.xuance.v1_1.marl_buffer import StepsBuffer
from relive.memory import Memory
from relive.types import Array

__all__ = ["MARL_OffPolicyBuffer", "MeanField_OffPolicyBuffer"]


class MARL_OffPolicyBuffer(StepsBuffer):  # noqa: N801 - their name
    """Replay of ``n_envs`` environments, ``buffer_size / n_envs`` steps each, drawn uniformly."""

    def __init__(
        self,
        n_agents: int,
        state_space: Any,
        obs_space: Any,
        act_space: Any,
        rew_space: Any,
        done_space: Any,
        n_envs: int,
        buffer_size: int,
        batch_size: int,
        *,
        seed: int | None = None,
        **kwargs: Any,  # noqa: ARG002 - theirs takes any
    ) -> None:
        super().__init__(n_agents, state_space, obs_space, act_space, rew_space, done_space, n_envs, buffer_size)
        self.batch_size = at_least("batch_size", batch_size, 1)
        self.store_global_state = state_space is not None
        self._setup(self._fields(), seed=seed)

    def _fields(self) -> dict[str, Any]:
        fields = self._common_fields()
        return fields | {f"{key}_next": fields[key] for key in ("obs", "state") if key in fields}

    def sample(self) -> dict[str, Any]:
        """``batch_size`` steps by name."""
        return self._of_batch(self._slots.memory.sample(self.batch_size))


class MeanField_OffPolicyBuffer(MARL_OffPolicyBuffer):  # noqa: N801 - their name
    """Replay with the mean action of an agent's neighbours, now and next.

    A step may bring ``act_mean_next`` itself. Otherwise it is ``act_mean`` of the next step, if that is of the same
    episode, and until it comes the step's own.
    """

    def __init__(
        self,
        n_agents: int,
        state_space: Any,
        obs_space: Any,
        act_space: Any,
        prob_shape: Any,
        rew_space: Any,
        done_space: Any,
        n_envs: int,
        buffer_size: int,
        batch_size: int,
        *,
        seed: int | None = None,
    ) -> None:
        self.prob_shape = prob_shape
        spaces = (n_agents, state_space, obs_space, act_space, rew_space, done_space)
        super().__init__(*spaces, n_envs, buffer_size, batch_size, seed=seed)
        self._waits = np.zeros(self.n_envs, bool)

    _optional = frozenset({"agent_mask", "act_mean_next"})

    def _fields(self) -> dict[str, Any]:
        mean = field_of("prob_shape", self.prob_shape)
        return super()._fields() | {"act_mean": mean, "act_mean_next": mean}

    def _also(self, step_data: Mapping[str, Any], step: dict[str, Any]) -> dict[str, Any]:
        return {} if "act_mean_next" in step_data else {"act_mean_next": step["act_mean"]}

    @exclusive
    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._waits[:] = False

    @exclusive
    def store(self, step_data: Mapping[str, Any]) -> None:
        """Store one step of every environment: arrays ``[n_envs, ...]`` by name, ``act_mean`` among them."""
        before = self._slots.ptr - 1
        super().store(step_data)
        newest = self._slots.ptr - 1
        waited: Array = self._waits
        self.data["act_mean_next"][waited, before] = self.data["act_mean"][waited, newest]
        ended = self.data["terminals"][:, newest].reshape(self.n_envs, -1).all(axis=1)
        ended = ended | self._truncated(step_data)
        self._waits = ~ended if "act_mean_next" not in step_data else np.zeros(self.n_envs, bool)

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        memory, notes = super()._parts()
        return memory, notes | {"waits": self._waits.tolist()}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        super()._adopt(memory, notes)
        self._waits = np.array(notes["waits"], bool)
