"""XuanCe's on-policy buffers for one agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive.compat.checks import at_least
from relive.compat.nests import field_of
from relive.compat.saving import exclusive
from relive.compat.xuance.buffer import StepBuffer, Stored, image_field
from relive.compat.xuance.paths import HasPaths, Paths, advantages, last_values, of_agents
from relive.compat.xuance.slots import slots_of
from relive.errors import NotEnoughRows
from relive.memory import targets
from relive.schema import Field

__all__ = ["DummyOnPolicyBuffer", "DummyOnPolicyBuffer_Atari"]

_NUMBER = Field((), "float32", role="plain")


class DummyOnPolicyBuffer(HasPaths, StepBuffer):
    """Rollouts of ``n_envs`` environments, ``horizon_size`` steps each.

    Args:
        use_gae: Whether advantages are estimated by GAE; otherwise they are discounted returns less values.
        use_advnorm: Whether a batch's advantages are normalised.
    """

    values = Stored("value")
    returns = Stored("returns")
    advantages = Stored("advantages")

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        horizon_size: int,
        use_gae: bool = True,
        use_advnorm: bool = True,
        gamma: float = 0.99,
        gae_lam: float = 0.95,
        *,
        seed: int | None = None,
    ) -> None:
        steps = at_least("n_envs", n_envs, 1) * at_least("horizon_size", horizon_size, 2)
        super().__init__(observation_space, action_space, auxiliary_shape, n_envs, steps)
        self.horizon_size = self.n_size
        self.use_gae, self.use_advnorm = use_gae, use_advnorm
        self.gamma, self.gae_lam = gamma, gae_lam
        fields = {"obs": self._observation_field(), "value": _NUMBER, "returns": _NUMBER, "advantages": _NUMBER}
        self._setup(fields, sampler=None, seed=seed)
        self._paths = Paths(self._slots)

    def _observation_field(self) -> Any:
        return field_of("observation_space", self.observation_space)

    @exclusive
    def clear(self) -> None:
        """Forget everything, the beginnings of paths too."""
        self._forget()
        self._paths.clear()

    @exclusive
    def store(
        self,
        obs: Any,
        acts: Any,
        rews: Any,
        value: Any,
        terminals: Any,
        aux_info: Any = None,
        truncations: Any = None,
    ) -> None:
        """Store one step of every environment: values ``[n_envs, ...]``.

        Args:
            value: Values, or the number 0 if the algorithm has none.
            truncations: Which environments were cut off by a time limit; ``finish_path`` has to follow for them.
        """
        self._paths.check_finished()
        zeros = np.zeros(self.n_envs, np.float32)
        if isinstance(value, (int, float)) and value == 0:
            value = zeros
        step = {"obs": obs, "acts": acts, "rews": rews, "value": value, "returns": zeros, "advantages": zeros}
        self._put(step, terminals, aux_info, truncations)
        if truncations is not None:
            self._paths.cut_off(np.array(truncations, bool) & ~np.asarray(terminals, bool))

    @exclusive
    def finish_path(self, val: Any, i: int) -> None:
        """Work out returns and advantages of an environment's steps since the last call.

        Args:
            val: Value of what was seen after the newest step; does not matter if that terminated the episode.
            i: The environment.
        """
        path = self._paths.slots("i", i)
        if path.size:
            last = last_values("val", val, 1)
            along = of_agents(self.rewards[i, path], self.values[i, path], last, self.terminals[i, path], 1, None)
            returns, advantage = advantages(*along, use_gae=self.use_gae, gamma=self.gamma, lam=self.gae_lam)
            self.returns[i, path], self.advantages[i, path] = returns[:, 0], advantage[:, 0]
        self._paths.finish(i)

    @exclusive
    def sample(self, indexes: Any) -> dict[str, Any]:
        """``obs``, ``actions``, ``returns``, ``values``, ``aux_batch``, ``batch_size`` and ``advantages`` of steps.

        Args:
            indexes: Environment * horizon_size + slot, ``[B]``.
        """
        if not self.full:
            raise NotEnoughRows("buffer", "be full to be sampled", f"{self.size} of {self.n_size} steps")
        batch = self._slots.read(*slots_of(indexes, self.n_envs, self.n_size))
        return {
            "obs": self._slots.of_batch("obs", batch),
            "actions": self._slots.of_batch("acts", batch),
            "returns": batch.returns,
            "values": batch.value,
            "aux_batch": self._aux.of_batch(self._slots, batch),
            "batch_size": len(batch.lanes),
            "advantages": targets.normalize(batch.advantages) if self.use_advnorm else batch.advantages,
        }


class DummyOnPolicyBuffer_Atari(DummyOnPolicyBuffer):  # noqa: N801 - their name
    """The same with observations kept as bytes; floats are refused, as they would be cut to zeros."""

    def _observation_field(self) -> Any:
        return image_field(self.observation_space)
