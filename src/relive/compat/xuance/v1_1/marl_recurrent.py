"""XuanCe's buffers of whole episodes of many agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive.compat.checks import at_least
from relive.compat.xuance.paths import advantages, last_values, of_agents, td_lambda_returns
from relive.compat.xuance.v1_1.marl_buffer import missing
from relive.compat.xuance.v1_1.marl_episodes import EpisodesBuffer, Part
from relive.compat.xuance.v1_1.marl_on_policy import needed_argument
from relive.errors import NotEnoughRows, OptionError
from relive.memory import targets
from relive.schema import Field
from relive.types import Array

__all__ = ["COMA_Buffer_RNN", "MARL_OffPolicyBuffer_RNN", "MARL_OnPolicyBuffer_RNN"]

_NUMBER = Field((), "float32", role="plain")


class MARL_OnPolicyBuffer_RNN(EpisodesBuffer):  # noqa: N801 - their name
    """Rollouts of whole episodes, with returns and advantages.

    Args:
        buffer_size: Episodes.
        kwargs: ``max_episode_length`` and ``dim_act``, the number of actions.
    """

    _normalizes = True
    _needed: tuple[str, ...] = ("actions_n", "values")

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
        self.dim_act = needed_argument(kwargs, "dim_act")
        parts = self._common_parts(self.dim_act)
        reward = parts["rewards"].field
        if int(np.prod(reward.shape)) != 1:
            raise OptionError("rew_space", "hold one number: every agent has its own already", list(reward.shape))
        for key in ("returns", "values", "advantages"):
            parts[key] = Part(Field(reward.shape, "float32", role="plain"), agents=True)
        parts["log_pi_old"] = Part(_NUMBER, agents=True)
        parts |= self._more_parts(kwargs)
        self._setup(parts, needed_argument(kwargs, "max_episode_length"), seed)

    def _more_parts(self, kwargs: dict[str, Any]) -> dict[str, Part]:  # noqa: ARG002
        return {}

    def store_transitions(self, t_envs: Any, *transition_data: Any) -> None:
        """Gather one step of every environment.

        Args:
            t_envs: Time of the step: one number, or one for each environment.
            transition_data: Observations, a dict with ``actions_n``, ``values`` and ``log_pi``, states, rewards,
                terminals and available actions.
        """
        check_transition(transition_data)
        self._gather(t_envs, self._named(*transition_data))

    def _named(
        self, obs_n: Any, actions_dict: Any, state: Any, rewards: Any, terminated: Any, avail_actions: Any
    ) -> dict[str, Any]:
        missing(actions_dict, self._needed)
        step = common_step(self, obs_n, actions_dict, state, rewards, terminated, avail_actions)
        log_pi = actions_dict.get("log_pi")  # which not every algorithm has
        if log_pi is None:
            log_pi = np.zeros((self.n_envs, self.n_agents), np.float32)
        return step | {"values": actions_dict["values"], "log_pi_old": log_pi}

    def finish_path(  # type: ignore[override]
        self, i_env: int, next_t: int, *terminal_data: Any, value_next: Any = None, value_normalizer: Any = None
    ) -> None:
        """Finish an environment's episode: take what was seen last, work out returns and advantages.

        Args:
            next_t: Steps of the episode.
            terminal_data: Next observations, states and available actions of all environments, and ``filled``, which
                steps are real.
            value_next: Values of what was seen last, one for each agent; None for zeros.
            value_normalizer: What the values were normalised by, with a method ``denormalize``.
        """
        last, cells = self._last(value_next), self._end(i_env, next_t, terminal_data)
        along = self._along(i_env, next_t, last, value_normalizer)
        returns, advantage = advantages(*along, use_gae=self.use_gae, gamma=self.gamma, lam=self.gae_lambda)
        self._close(i_env, next_t, cells)
        self._put_back("returns", i_env, returns)
        self._put_back("advantages", i_env, advantage)

    def _last(self, value_next: Any) -> Array:
        return last_values("value_next", 0.0 if value_next is None else value_next, self.n_agents)

    def _along(self, i_env: int, length: int, last: Array, normalizer: Any) -> tuple[Array, Array, Array]:
        """Rewards, values and terminals of an episode, as targets take them."""
        rewards, values = (self.episode_data[key][i_env, :, :length] for key in ("rewards", "values"))
        rewards, values = (array.reshape(self.n_agents, length).T for array in (rewards, values))
        dones = self.episode_data["terminals"][i_env, :length]
        return of_agents(rewards, values, last, dones, self.n_agents, normalizer)

    def _put_back(self, key: str, i_env: int, worked_out: Array) -> None:
        target = self.episode_data[key]
        target[i_env, :, : len(worked_out)] = worked_out.T.reshape(self.n_agents, -1, *target.shape[3:])

    def sample(self, indexes: Any) -> dict[str, Array]:
        """Episodes by name.

        Args:
            indexes: Places of episodes, ``[B]``.
        """
        if not self.full:
            raise NotEnoughRows("buffer", "be full to be sampled", f"{self.size} of {self.buffer_size} episodes")
        places = np.asarray(indexes)
        if places.dtype.kind not in "iu" or not places.size or not 0 <= places.min() <= places.max() < self.buffer_size:
            raise OptionError("indexes", f"be whole numbers from 0 to {self.buffer_size - 1}", repr(indexes))
        batch = self._memory.read(np.zeros(places.size, np.int64), self._starts(places.ravel()))
        samples = self._of_batch(batch)
        if self._normalizes and self.use_advantage_norm:
            advantage = samples["advantages"]
            real = samples["filled"].reshape(len(advantage), 1, self.max_eps_len, *(1,) * (advantage.ndim - 3))
            samples["advantages"] = targets.normalize(advantage, mask=np.broadcast_to(real, advantage.shape))
        return {"filled": samples.pop("filled"), **samples}


class COMA_Buffer_RNN(MARL_OnPolicyBuffer_RNN):  # noqa: N801 - their name
    """Rollouts of whole episodes whose returns are TD(lambda) targets.

    Args:
        kwargs: ``max_episode_length``, ``dim_act`` and ``td_lambda``.
    """

    _normalizes = False
    _needed = ("actions_n", "values", "act_n_onehot")

    def _more_parts(self, kwargs: dict[str, Any]) -> dict[str, Part]:
        self.td_lambda = needed_argument(kwargs, "td_lambda")
        return {"actions_onehot": Part(Field((self.dim_act,), "float32", role="plain"), agents=True)}

    def _named(
        self, obs_n: Any, actions_dict: Any, state: Any, rewards: Any, terminated: Any, avail_actions: Any
    ) -> dict[str, Any]:
        step = super()._named(obs_n, actions_dict, state, rewards, terminated, avail_actions)
        return step | {"actions_onehot": actions_dict["act_n_onehot"]}

    def finish_path(  # type: ignore[override]
        self, i_env: int, next_t: int, *terminal_data: Any, value_next: Any = None, value_normalizer: Any = None
    ) -> None:
        """Finish an environment's episode: take what was seen last, work out TD(lambda) returns."""
        last, cells = self._last(value_next), self._end(i_env, next_t, terminal_data)
        along = self._along(i_env, next_t, last, value_normalizer)
        returns = td_lambda_returns(*along, gamma=self.gamma, lam=self.td_lambda)
        self._close(i_env, next_t, cells)
        self._put_back("returns", i_env, returns)


class MARL_OffPolicyBuffer_RNN(EpisodesBuffer):  # noqa: N801 - their name
    """Replay of whole episodes, drawn uniformly.

    Args:
        buffer_size: Episodes.
        batch_size: Episodes of a batch.
        kwargs: ``max_episode_length`` and ``dim_act``, the number of actions.
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
        buffer_size: int,
        batch_size: int,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(n_agents, state_space, obs_space, act_space, rew_space, done_space, n_envs, buffer_size)
        self.batch_size = at_least("batch_size", batch_size, 1)
        self.store_global_state = state_space is not None
        self.dim_act = needed_argument(kwargs, "dim_act")
        self._setup(self._common_parts(self.dim_act), needed_argument(kwargs, "max_episode_length"), seed)

    def store_transitions(self, t_envs: Any, *transition_data: Any) -> None:
        """Gather one step of every environment.

        Args:
            t_envs: Time of the step: one number, or one for each environment.
            transition_data: Observations, a dict with ``actions_n``, states, rewards, terminals and available actions.
        """
        check_transition(transition_data)
        missing(transition_data[1], ("actions_n",))
        self._gather(t_envs, common_step(self, *transition_data))

    def finish_path(self, i_env: int, next_t: int, *terminal_data: Any) -> None:
        """Finish an environment's episode: take what was seen last.

        Args:
            next_t: Steps of the episode.
            terminal_data: Next observations, states and available actions of all environments, and ``filled``, which
                steps are real.
        """
        self._close(i_env, next_t, self._end(i_env, next_t, terminal_data))

    def sample(self) -> dict[str, Array]:
        """``batch_size`` episodes by name."""
        return self._of_batch(self._memory.sample(self.batch_size))


def check_transition(data: tuple[Any, ...]) -> None:
    """Refuse what is not the six parts of a transition."""
    if len(data) != 6:
        rule = "be observations, a dict of actions, states, rewards, terminals and available actions"
        raise OptionError("transition_data", rule, f"{len(data)} values")


def common_step(
    buffer: EpisodesBuffer, obs_n: Any, actions_dict: Any, state: Any, rewards: Any, terminated: Any, avail_actions: Any
) -> dict[str, Any]:
    """A step's parts by name; the state only where there is one."""
    step = {
        "obs": obs_n,
        "actions": actions_dict["actions_n"],
        "rewards": rewards,
        "terminals": terminated,
        "avail_actions": avail_actions,
    }
    return step if buffer.state_space is None else step | {"state": state}
