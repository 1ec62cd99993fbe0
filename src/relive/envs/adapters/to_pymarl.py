"""Adapter to PyMARL's ``MultiAgentEnv``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np
from gymnasium import spaces

from relive.envs.interface import Env, finals
from relive.errors import OptionError
from relive.types import Array

__all__ = ["ToPymarl"]


@final
class ToPymarl:
    """One environment with the interface of PyMARL's ``MultiAgentEnv``.

    Where agents differ, shorter observations are zero-padded, and missing actions are unavailable. Without a global
    state, the concatenated observations are the state.

    Args:
        env: With discrete actions, made with ``num_envs=1``.
        reward: How per-agent rewards are combined: ``"sum"`` or ``"mean"``.
        steps: ``"pymarl"``: ``step`` returns ``reward, terminated, info``; ``"epymarl"``: ``obs, reward, terminated,
            truncated, info``.

    >>> from relive.envs import make
    >>> env = ToPymarl(make("marines_4v4"))
    >>> obs, state = env.reset()
    >>> env.get_env_info()["obs_shape"], env.get_env_info()["state_shape"], env.get_total_actions()
    (40, 68, 10)
    """

    def __init__(
        self,
        env: Env,
        *,
        reward: Literal["sum", "mean"] = "sum",
        steps: Literal["pymarl", "epymarl"] = "pymarl",
        seed: int | None = None,
    ) -> None:
        if env.num_envs != 1:
            raise OptionError("env", "be made with num_envs=1", env.num_envs)
        for name, value, allowed in (("reward", reward, ("sum", "mean")), ("steps", steps, ("pymarl", "epymarl"))):
            if value not in allowed:
                raise OptionError(name, f"be {allowed[0]!r} or {allowed[1]!r}", repr(value))
        for group in env.groups:
            if group.mask and not group.avail:  # who may do nothing can stay
                raise OptionError("env", "have agents that stay", f"{env.name}, where they come and go")
            if not isinstance(group.action_space, spaces.Discrete):
                raise OptionError("env", "have discrete actions", group.action_space)
            if not isinstance(group.obs_space, spaces.Box) or len(group.obs_space.shape) != 1:
                raise OptionError("env", "have observations in one axis", group.obs_space)
        if env.max_episode_steps is None:
            raise OptionError("env", "have a limit of steps", "none")
        self._env = env
        self._mean = reward == "mean"
        self._new = steps == "epymarl"
        self._seed = seed
        self.episode_limit = env.max_episode_steps
        self.n_agents = sum(len(group) for group in env.groups)
        self._obs_size = max(int(group.obs_space.shape[0]) for group in env.groups)
        self._choices = max(int(group.action_space.n) for group in env.groups)
        self._now: dict[str, Array] = {}

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:  # noqa: ARG002
        """Reset; returns observations and the state (with ``"epymarl"`` an info)."""
        seed, self._seed = (self._seed if seed is None else seed), None
        self._now = self._env.reset(seed=None if seed is None else [seed])
        return self.get_obs(), {} if self._new else self.get_state()

    def step(self, actions: Sequence[Any]) -> tuple[Any, ...]:
        """Step the environment."""
        flat = np.asarray(actions, np.int64).reshape(-1)
        if len(flat) != self.n_agents:
            raise OptionError("actions", f"be {self.n_agents}", len(flat))
        chosen, first = {}, 0
        for group in self._env.groups:
            chosen[group.key("action")] = flat[None, first : first + len(group)] + int(group.action_space.start)
            first += len(group)
        step = self._env.step(chosen)
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        ended = terminated or truncated
        self._now = finals(step.row) if ended else step.obs
        if self._env.shared_reward:
            reward = float(step.row["reward"][0])
        else:
            each = np.concatenate([step.row[group.key("reward")][0] for group in self._env.groups])
            reward = float(each.mean() if self._mean else each.sum())
        info = {key: value[0] for key, value in step.info.items()}
        if self._new:
            return self.get_obs(), reward, terminated, truncated, info
        if truncated:
            info["episode_limit"] = True
        return reward, ended, info

    def get_obs(self) -> list[Array]:
        """All agents' observations."""
        self._check_begun()
        seen = [row for group in self._env.groups for row in self._now[group.key("obs")][0]]
        return [np.pad(row, (0, self._obs_size - len(row))) for row in seen]

    def _check_begun(self) -> None:
        if not self._now:
            raise OptionError("reset", "be called first", "nothing")

    def get_obs_agent(self, agent_id: int) -> Array:
        """One agent's observation."""
        return self.get_obs()[agent_id]

    def get_obs_size(self) -> int:
        """Length of an observation."""
        return self._obs_size

    def get_state(self) -> Array:
        """The global state."""
        self._check_begun()
        return self._now["state"][0] if self._env.state_space is not None else np.concatenate(self.get_obs())

    def get_state_size(self) -> int:
        """Length of the state."""
        space = self._env.state_space
        return int(space.shape[0]) if space is not None else self.n_agents * self._obs_size

    def get_avail_actions(self) -> list[list[int]]:
        """All agents' action masks, 1 or 0."""
        self._check_begun()
        allowed: list[list[int]] = []
        for group in self._env.groups:
            own = int(group.action_space.n)
            mask = np.zeros((len(group), self._choices), np.int64)
            mask[:, :own] = self._now[group.key("avail_actions")][0] if group.avail else 1
            allowed += mask.tolist()
        return allowed

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        """One agent's action mask, 1 or 0."""
        return self.get_avail_actions()[agent_id]

    def get_total_actions(self) -> int:
        """The number of actions."""
        return self._choices

    def get_env_info(self) -> dict[str, Any]:
        """Sizes, by PyMARL's names."""
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self._obs_size,
            "n_actions": self._choices,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def get_stats(self) -> dict[str, Any]:
        """Nothing beyond the infos."""
        return {}

    def seed(self, seed: int) -> None:
        """Use this seed at the next reset."""
        self._seed = seed

    def save_replay(self) -> None:
        """Nothing is recorded."""

    def render(self, mode: str = "rgb_array") -> Array:  # noqa: ARG002
        """An image, RGB bytes."""
        return self._env.render(0)

    def close(self) -> None:
        """Close it."""
        self._env.close()
