"""XuanCe's on-policy buffers for many agents, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive.compat.nests import field_of
from relive.compat.saving import exclusive
from relive.compat.xuance.paths import HasPaths, Paths, advantages, last_values, of_agents, td_lambda_returns
from relive.compat.xuance.slots import slots_of
from relive.compat.xuance.v1_1.marl_buffer import StepsBuffer, shape_of
from relive.errors import NotEnoughRows, OptionError
from relive.memory import targets
from relive.schema import Field
from relive.types import Array

__all__ = ["COMA_Buffer", "MARL_OnPolicyBuffer", "MeanField_OnPolicyBuffer"]


class MARL_OnPolicyBuffer(HasPaths, StepsBuffer):  # noqa: N801 - their name
    """Rollouts of ``n_envs`` environments, ``buffer_size / n_envs`` steps each.

    Args:
        use_gae: Whether advantages are estimated by GAE; otherwise they are discounted returns less values.
        use_advnorm: Whether a batch's advantages are normalised, over agents that are alive.
    """

    _computed = frozenset({"returns", "advantages"})

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
        use_gae: bool,
        use_advnorm: bool,
        gamma: float,
        gae_lam: float,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(n_agents, state_space, obs_space, act_space, rew_space, done_space, n_envs, buffer_size)
        self.use_gae, self.use_advantage_norm = use_gae, use_advnorm
        self.gamma, self.gae_lambda = gamma, gae_lam
        self._reward_shape = shape_of("rew_space", rew_space)
        if int(np.prod(self._reward_shape)) not in (1, self.n_agents):
            rule = f"hold one number, or one for each of {self.n_agents} agents"
            raise OptionError("rew_space", rule, list(self._reward_shape))
        self._setup(self._fields(**kwargs), seed=seed)
        self._paths = Paths(self._slots)

    def _fields(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        return {**self._common_fields(), **self._value_fields(), "log_pi_old": self._of_agents(())}

    def _value_fields(self) -> dict[str, Any]:
        # What is worked out for every agent has their axis, even if the reward is one for all.
        worked_out = self._of_agents((1,)) if self._shared_reward else field_of("rew_space", self.rew_space)
        return {"returns": worked_out, "values": self._of_agents((1,)), "advantages": worked_out}

    @property
    def _shared_reward(self) -> bool:
        return self.n_agents > 1 and int(np.prod(self._reward_shape)) == 1

    def _of_agents(self, shape: tuple[int, ...]) -> Field:
        return Field((self.n_agents, *shape), "float32", role="plain")

    @exclusive
    def clear(self) -> None:
        """Forget everything, the beginnings of paths too."""
        super().clear()
        self._paths.clear()

    @exclusive
    def store(self, step_data: Mapping[str, Any]) -> None:
        """Store one step of every environment, as replay does; after a truncated one ``finish_path`` has to follow."""
        self._paths.check_finished()
        super().store(step_data)
        ended = self.data["terminals"][:, self._slots.ptr - 1].reshape(self.n_envs, -1).all(axis=1)
        self._paths.cut_off(self._truncated(step_data) & ~ended)

    @exclusive
    def finish_path(self, value: Any, i_env: int, value_normalizer: Any = None) -> None:
        """Work out returns and advantages of an environment's steps since the last call.

        Args:
            value: Values of what was seen after the newest step, one for each agent or one for all.
            value_normalizer: What the values were normalised by, with a method ``denormalize``.
        """
        path = self._paths.slots("i_env", i_env)
        if path.size:
            along = self._along(path, i_env, value, value_normalizer)
            returns, advantage = advantages(*along, use_gae=self.use_gae, gamma=self.gamma, lam=self.gae_lambda)
            self._put_back("returns", i_env, path, returns)
            self._put_back("advantages", i_env, path, advantage)
        self._paths.finish(i_env)

    def _along(self, path: Array, i_env: int, value: Any, normalizer: Any) -> tuple[Array, Array, Array]:
        """Rewards, values and terminals of a path, as targets take them."""
        last = last_values("value", value, self.n_agents)
        rewards, values, dones = (self.data[key][i_env, path] for key in ("rewards", "values", "terminals"))
        return of_agents(rewards, values, last, dones, self.n_agents, normalizer)

    def _put_back(self, key: str, i_env: int, path: Array, worked_out: Array) -> None:
        target = self.data[key]
        target[i_env, path] = worked_out.reshape(len(path), *target.shape[2:])

    def sample(self, indexes: Any) -> dict[str, Any]:
        """Steps by name.

        Args:
            indexes: Environment * n_size + slot, ``[B]``.
        """
        if not self.full:
            raise NotEnoughRows("buffer", "be full to be sampled", f"{self.size} of {self.n_size} steps")
        samples = self._of_batch(self._slots.read(*slots_of(indexes, self.n_envs, self.n_size)))
        if "advantages" in samples and self.use_advantage_norm:
            advantage = samples["advantages"]
            alive = samples["agent_mask"].reshape(advantage.shape)
            samples["advantages"] = targets.normalize(advantage, mask=alive)
        return samples


class MeanField_OnPolicyBuffer(MARL_OnPolicyBuffer):  # noqa: N801 - their name
    """Rollouts with the mean action of an agent's neighbours.

    Args:
        n_size: Steps of all environments together. A step may leave ``act_mean`` out (zeros).
        kwargs: ``prob_space``, the shape of a mean action.
    """

    def __init__(
        self,
        n_agents: int,
        state_space: Any,
        obs_space: Any,
        act_space: Any,
        rew_space: Any,
        done_space: Any,
        n_envs: int,
        n_size: int,
        use_gae: bool,
        use_advnorm: bool,
        gamma: float,
        gae_lam: float,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.prob_space = needed_argument(kwargs, "prob_space")
        spaces = (n_agents, state_space, obs_space, act_space, rew_space, done_space)
        super().__init__(*spaces, n_envs, n_size, use_gae, use_advnorm, gamma, gae_lam, seed=seed, **kwargs)

    _optional = frozenset({"agent_mask", "act_mean"})

    def _fields(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        return {**self._common_fields(), **self._value_fields(), "act_mean": field_of("prob_space", self.prob_space)}

    def _also(self, step_data: Mapping[str, Any], step: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        if "act_mean" in step:
            return {}
        return {"act_mean": np.zeros((self.n_envs, *self._slots.fields["act_mean"].shape), np.float32)}

    def finish_ac_path(self, value: Any, i_env: int) -> None:
        """The same as ``finish_path``."""
        self.finish_path(value, i_env)


class COMA_Buffer(MARL_OnPolicyBuffer):  # noqa: N801 - their name
    """Rollouts whose returns are TD(lambda) targets.

    Args:
        kwargs: ``dim_act``, the number of actions, and ``td_lambda``.
    """

    _computed = frozenset({"returns"})

    def _fields(self, **kwargs: Any) -> dict[str, Any]:
        self.dim_act, self.td_lambda = needed_argument(kwargs, "dim_act"), needed_argument(kwargs, "td_lambda")
        fields = {**self._common_fields(), **self._value_fields(), "log_pi_old": self._of_agents(())}
        del fields["advantages"]
        return fields | {"actions_onehot": self._of_agents((self.dim_act,))}

    @exclusive
    def finish_path(self, value: Any, i_env: int, value_normalizer: Any = None) -> None:
        """Work out TD(lambda) returns of an environment's steps since the last call, as other rollouts do."""
        path = self._paths.slots("i_env", i_env)
        if path.size:
            along = self._along(path, i_env, value, value_normalizer)
            self._put_back("returns", i_env, path, td_lambda_returns(*along, gamma=self.gamma, lam=self.td_lambda))
        self._paths.finish(i_env)


def needed_argument(kwargs: dict[str, Any], name: str) -> Any:
    """A keyword argument that has to be given."""
    if name not in kwargs:
        raise OptionError(name, "be given as a keyword argument", "nothing")
    return kwargs[name]
