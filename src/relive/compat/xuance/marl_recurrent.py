"""XuanCe's buffers of whole episodes of many agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relive.compat.checks import at_least, index, switch
from relive.compat.drawing import generator
from relive.compat.saving import exclusive
from relive.compat.xuance.marl_buffer import FLAG, NUMBER, Kept
from relive.compat.xuance.marl_episodes import EpisodesBuffer
from relive.compat.xuance.marl_on_policy import normalized, real_values
from relive.compat.xuance.paths import advantages
from relive.errors import NotEnoughRows, OptionError

__all__ = [
    "IC3Net_OnPolicyBuffer_RNN",
    "MARL_OffPolicyBuffer_RNN",
    "MARL_OnPolicyBuffer_RNN",
    "MeanField_OffPolicyBuffer_RNN",
    "MeanField_OnPolicyBuffer_RNN",
]


class MARL_OnPolicyBuffer_RNN(EpisodesBuffer):  # noqa: N801 - their name
    """Rollouts of whole episodes, with returns and advantages.

    Args:
        buffer_size: Episodes.
        max_episode_steps: Steps of the longest.
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
        max_episode_steps: int = 1,
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
        self.n_actions = kwargs.get("n_actions")
        self._options(kwargs)
        self._setup(self._layout(**kwargs), max_episode_steps, seed)

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:  # noqa: ARG002
        number, flag = self._of_agents(NUMBER), self._of_agents(FLAG)
        return {
            "obs": self._seen(),
            "actions": self._done(),
            "rewards": number,
            "returns": number,
            "values": number,
            "advantages": number,
            **self._probabilities(),
            "terminals": flag,
            "agent_mask": flag,
            "filled": flag,
            **self._state(),
            **self._available(),
        }

    def _probabilities(self) -> dict[str, Kept]:
        return {"log_pi_old": self._of_agents(NUMBER)}

    @exclusive
    def finish_path(
        self,
        i_env: int | None = None,
        i_step: int | None = None,
        value_next: Mapping[str, Any] | None = None,
        value_normalizer: Any = None,
    ) -> None:
        """Work out returns and advantages of an environment's episode, and store it.

        Args:
            i_step: Steps of the episode; those past ``max_episode_steps`` do not count.
            value_next: By agent, the value of what was seen last.
            value_normalizer: By agent, or one by the first agent's name for all: what the values were normalised by.
        """
        env = index("i_env", i_env, 0, self.n_envs - 1)
        along = slice(0, self._checked_length("i_step", env, i_step))
        rewards, values, dones = (self._staged[key][env, along] for key in ("rewards", "values", "terminals"))
        real = real_values(values, value_next, self.agent_keys, value_normalizer)
        how: dict[str, Any] = {"use_gae": self.use_gae, "gamma": self.gamma, "lam": self.gae_lambda}
        returns, advantage = advantages(rewards, real, dones, **how)
        self._staged["returns"][env, along], self._staged["advantages"][env, along] = returns, advantage
        self.store_episodes(env)

    @exclusive
    def sample(self, indexes: Any = None) -> dict[str, Any]:
        """Episodes ``[B, T, ...]`` by name and agent, ``batch_size``, and T as ``sequence_length``.

        Args:
            indexes: Places of episodes, ``[B]``.
        """
        if not self.full:
            raise NotEnoughRows("buffer", "be full to be sampled", f"{self.size} of {self.buffer_size} episodes")
        places = np.asarray(indexes)
        if places.dtype.kind not in "iu" or not places.size or not 0 <= places.min() <= places.max() < self.size:
            raise OptionError("indexes", f"be whole numbers from 0 to {self.size - 1}", repr(indexes))
        samples = self._read(places.ravel())
        if self.use_advantage_norm:
            samples["advantages"] = normalized(samples["advantages"], samples["agent_mask"], samples["filled"])
        return samples | {"batch_size": places.size, "sequence_length": self.max_eps_len}


class IC3Net_OnPolicyBuffer_RNN(MARL_OnPolicyBuffer_RNN):  # noqa: N801 - their name
    """Rollouts of whole episodes with the probabilities of gates, ``gate_log_pi_old``."""

    def _probabilities(self) -> dict[str, Kept]:
        return {"gate_log_pi_old": self._of_agents(NUMBER), **super()._probabilities()}


class MeanField_OnPolicyBuffer_RNN(MARL_OnPolicyBuffer_RNN):  # noqa: N801 - their name
    """Rollouts of whole episodes with the mean action of an agent's neighbours, of ``n_actions_max`` numbers."""

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:
        mean = self._mean_action(kwargs)
        return super()._layout(**kwargs) | {"actions_mean": mean}


class MARL_OffPolicyBuffer_RNN(EpisodesBuffer):  # noqa: N801 - their name
    """The newest ``buffer_size`` episodes, drawn uniformly, with what was seen after the last step.

    Args:
        max_episode_steps: Steps of the longest.
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
        max_episode_steps: int = 1,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(agent_keys, state_space, obs_space, act_space, n_envs, buffer_size)
        self.batch_size = at_least("batch_size", batch_size, 1)
        self._options(kwargs)
        self._setup(self._layout(**kwargs), max_episode_steps, seed)

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:  # noqa: ARG002
        return {
            "obs": self._seen(observed=True),
            "actions": self._done(),
            "rewards": self._of_agents(NUMBER),
            "terminals": self._of_agents(FLAG),
            "agent_mask": self._of_agents(FLAG),
            "filled": self._of_agents(FLAG),
            **self._state(observed=True),
            **self._available(observed=True),
        }

    @exclusive
    def finish_path(self, i_env: int, **terminal_data: Any) -> None:
        """Take what was seen last in an environment's episode, and store it.

        Args:
            terminal_data: ``episode_step``, the steps of the episode; ``obs`` by agent, and ``state`` and
                ``avail_actions`` where they are kept.
        """
        env = index("i_env", i_env, 0, self.n_envs - 1)
        length = self._checked_length("episode_step", env, terminal_data.get("episode_step"))
        self._see_last(env, length, terminal_data)
        self.store_episodes(env)

    @exclusive
    def sample(self, batch_size: int | None = None) -> dict[str, Any]:
        """Episodes by name and agent, ``batch_size``, and the most steps of one as ``sequence_length``.

        Observations, states and available actions are ``[B, T + 1, ...]``, the rest ``[B, T, ...]``.
        """
        if self.size == 0:
            raise NotEnoughRows("buffer", "hold an episode to be sampled", "none")
        size = self.batch_size if batch_size is None else at_least("batch_size", batch_size, 1)
        samples = self._read(generator(self._ring.memory).integers(0, self.size, size))
        return samples | {"batch_size": size, "sequence_length": self.max_eps_len}


class MeanField_OffPolicyBuffer_RNN(MARL_OffPolicyBuffer_RNN):  # noqa: N801 - their name
    """Episodes with the mean action of an agent's neighbours, of ``n_actions_max`` numbers, after the last step too."""

    def _layout(self, **kwargs: Any) -> dict[str, Kept]:
        mean = self._mean_action(kwargs, observed=True)
        return super()._layout(**kwargs) | {"actions_mean": mean}
