"""XuanCe's on-policy buffers for many agents, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relive.compat.checks import index, plain, switch
from relive.compat.saving import exclusive
from relive.compat.xuance.marl_buffer import FLAG, NUMBER, Kept, StepsBuffer
from relive.compat.xuance.paths import HasPaths, Paths, advantages
from relive.compat.xuance.slots import slots_of
from relive.errors import NotEnoughRows, OptionError
from relive.memory import targets
from relive.types import Array

__all__ = ["MARL_OnPolicyBuffer", "MeanField_OnPolicyBuffer", "normalized", "real_values"]


class MARL_OnPolicyBuffer(HasPaths, StepsBuffer):  # noqa: N801 - their name
    """Rollouts of ``n_envs`` environments, ``buffer_size / n_envs`` steps each.

    Args:
        use_gae: Whether advantages are estimated by GAE; otherwise they are discounted returns less values.
        use_advnorm: Whether every agent's advantages of a batch are normalised, over the steps that it is alive.
        kwargs: ``use_actions_mask`` and ``avail_actions_shape`` (by agent) keep which actions are available.
    """

    _computed = frozenset({"returns", "advantages"})

    def __init__(
        self,
        agent_keys: Sequence[str],
        state_space: Any = None,
        obs_space: Any = None,
        act_space: Any = None,
        n_envs: int = 1,
        buffer_size: int = 1,
        use_gae: bool | None = False,
        use_advnorm: bool | None = False,
        gamma: float | None = None,
        gae_lam: float | None = None,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(agent_keys, state_space, obs_space, act_space, n_envs, buffer_size)
        self.use_gae, self.use_advantage_norm = switch("use_gae", use_gae), switch("use_advnorm", use_advnorm)
        self.gamma, self.gae_lambda = gamma, gae_lam
        self._options(kwargs)
        self._setup(self._layout(**kwargs), seed)
        self._paths = Paths(self._slots)

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:  # noqa: ARG002
        number, flag = self._of_agents(NUMBER), self._of_agents(FLAG)
        return {
            "obs": self._seen(),
            "actions": self._done(),
            "rewards": number,
            "returns": number,
            "values": number,
            "log_pi_old": number,
            "advantages": number,
            "terminals": flag,
            "agent_mask": flag,
            **self._state(),
            **self._available(),
        }

    @exclusive
    def clear(self) -> None:
        """Forget everything, the beginnings of paths too."""
        super().clear()
        self._paths.clear()

    @exclusive
    def store(self, **step_data: Any) -> None:
        """Store one step of every environment, as replay does; after a truncated one ``finish_path`` has to follow."""
        self._paths.check_finished()
        super().store(**step_data)
        ended = self._slots.arrays("terminals")[:, self._slots.ptr - 1].all(axis=1)
        self._paths.cut_off(self._truncated(step_data) & ~ended)

    @exclusive
    def finish_path(
        self, i_env: int | None = None, value_next: Mapping[str, Any] | None = None, value_normalizer: Any = None
    ) -> None:
        """Work out returns and advantages of an environment's steps since the last call.

        Args:
            value_next: By agent, the value of what was seen after the newest step.
            value_normalizer: By agent, or one by the first agent's name for all: what the values were normalised by,
                with a method ``denormalize``.
        """
        env = index("i_env", i_env, 0, self.n_envs - 1)
        path = self._paths.slots("i_env", env)
        if path.size:
            rewards, values, dones = (self._slots.arrays(name)[env, path] for name in ("rewards", "value", "terminals"))
            along = real_values(values, value_next, self.agent_keys, value_normalizer)
            how: dict[str, Any] = {"use_gae": self.use_gae, "gamma": self.gamma, "lam": self.gae_lambda}
            returns, advantage = advantages(rewards, along, dones, **how)
            self._slots.arrays("returns")[env, path] = returns
            self._slots.arrays("advantages")[env, path] = advantage
        self._paths.finish(env)

    @exclusive
    def sample(self, indexes: Any = None) -> dict[str, Any]:
        """Steps by name and agent, and ``batch_size``.

        Args:
            indexes: Environment * n_size + slot, ``[B]``.
        """
        if not self.full:
            raise NotEnoughRows("buffer", "be full to be sampled", f"{self.size} of {self.n_size} steps")
        batch = self._slots.read(*slots_of(indexes, self.n_envs, self.n_size))
        samples = self._of_batch(batch, self._kept)
        if self.use_advantage_norm:
            samples["advantages"] = normalized(samples["advantages"], samples["agent_mask"])
        return samples | {"batch_size": len(batch.lanes)}


class MeanField_OnPolicyBuffer(MARL_OnPolicyBuffer):  # noqa: N801 - their name
    """Rollouts with the mean action of an agent's neighbours.

    Args:
        kwargs: ``n_actions_max``, the length of a mean action.
    """

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:
        mean = self._mean_action(kwargs)
        return super()._layout(**kwargs) | {"actions_mean": mean}


def real_values(values: Array, value_next: Any, keys: Sequence[str], normalizer: Any) -> Array:
    """Values of what was seen before every step of a path and after its last, ``[T + 1, agents]``, as they really are.

    Args:
        values: ``[T, agents]``.
    """
    if not isinstance(value_next, Mapping) or any(np.size(plain(value_next.get(key, ()))) != 1 for key in keys):
        raise OptionError("value_next", f"have one number for each of {', '.join(keys)}", repr(value_next))
    last = np.array([np.asarray(plain(value_next[key]), np.float32).item() for key in keys], np.float32)
    real = np.concatenate([values, last[None]], dtype=np.float32)
    if normalizer is None:
        return real
    own = set(normalizer.keys()) == set(keys)
    columns = [
        np.asarray(plain(normalizer[key if own else keys[0]].denormalize(real[:, i])), np.float32).reshape(-1)
        for i, key in enumerate(keys)
    ]
    return np.stack(columns, axis=1)


def normalized(advantage: Mapping[str, Array], alive: Mapping[str, Array], real: Any = True) -> dict[str, Array]:
    """Every agent's advantages with mean 0 and deviation 1, over the steps that count."""
    return {key: targets.normalize(array, mask=alive[key] & real) for key, array in advantage.items()}
