"""XuanCe's off-policy buffers for many agents, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relive.compat.checks import at_least
from relive.compat.xuance.marl_buffer import FLAG, NUMBER, Kept, StepsBuffer

__all__ = ["MARL_OffPolicyBuffer", "MeanField_OffPolicyBuffer"]


class MARL_OffPolicyBuffer(StepsBuffer):  # noqa: N801 - their name
    """Replay of ``n_envs`` environments, ``buffer_size / n_envs`` steps each, drawn uniformly.

    Args:
        kwargs: ``use_actions_mask`` and ``avail_actions_shape`` (by agent) keep which actions are available.
    """

    def __init__(
        self,
        agent_keys: Sequence[str],
        state_space: Any = None,
        obs_space: Any = None,
        act_space: Any = None,
        n_envs: int = 1,
        buffer_size: int = 1,
        batch_size: int = 1,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(agent_keys, state_space, obs_space, act_space, n_envs, buffer_size)
        self.batch_size = at_least("batch_size", batch_size, 1)
        self._options(kwargs)
        self._setup(self._layout(**kwargs), seed)

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:  # noqa: ARG002
        state, available = self._state(), self._available()
        return {
            "obs": self._seen(),
            "actions": self._done(),
            "obs_next": self._seen(),
            "rewards": self._of_agents(NUMBER),
            "terminals": self._of_agents(FLAG),
            "agent_mask": self._of_agents(FLAG),
            **state,
            **{f"{key}_next": kept for key, kept in state.items()},
            **available,
            **{f"{key}_next": kept for key, kept in available.items()},
        }

    def sample(self, batch_size: int | None = None) -> dict[str, Any]:
        """So many steps by name and agent, and ``batch_size``."""
        size = self.batch_size if batch_size is None else batch_size
        return self._of_batch(self._slots.memory.sample(size), self._kept) | {"batch_size": size}

    def finish_path(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: there are no returns here."""


class MeanField_OffPolicyBuffer(MARL_OffPolicyBuffer):  # noqa: N801 - their name
    """Replay with the mean action of an agent's neighbours, now and next.

    Args:
        kwargs: ``n_actions_max``, the length of a mean action.
    """

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:
        mean = self._mean_action(kwargs)
        return super()._layout(**kwargs) | {"actions_mean": mean, "actions_mean_next": mean}
