"""Gymnasium's environments, one at a time or as vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import Space
from gymnasium.vector import AutoresetMode, VectorEnv

from recollect.envs.adapters.lockstep import check_started, keep_lanes
from recollect.envs.adapters.one import Outcome, flat, nest
from recollect.envs.dice import seeds_for
from recollect.envs.interface import AgentGroup, Array, Step, as_actions, schema_of
from recollect.errors import OptionError

__all__ = ["FromGymnasium", "FromGymnasiumVector", "MakeGymnasium"]


@final
class FromGymnasium:
    """One Gymnasium environment with its one agent."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self.groups = (AgentGroup("", ("agent",), env.observation_space, env.action_space),)
        self.state_space: Space[Any] | None = None
        self.shared_reward = False
        self.limit = env.spec.max_episode_steps if env.spec is not None else None

    def reset(self, seed: int | None = None) -> dict[str, Array]:
        """Begin an episode."""
        obs, _ = self._env.reset(seed=seed)
        return self._see(obs)

    def step(self, action: Mapping[str, Array]) -> Outcome:
        """Take a step."""
        chosen = nest(self._env.action_space, {key: value[0] for key, value in action.items()}, "action")
        obs, reward, terminated, truncated, info = self._env.step(chosen)
        return Outcome(
            self._see(obs), {"reward": np.array([reward], np.float32)}, bool(terminated), bool(truncated), info
        )

    def _see(self, obs: Any) -> dict[str, Array]:
        return {key: value[None] for key, value in flat(self._env.observation_space, obs, "obs").items()}

    def render(self) -> Array:
        """A picture, if the environment was made with ``render_mode="rgb_array"``."""
        picture = self._env.render()
        if not isinstance(picture, np.ndarray):
            raise OptionError("render_mode", "be 'rgb_array' for a picture", repr(self._env.render_mode))
        return picture

    def close(self) -> None:
        """Close it."""
        self._env.close()


@final
class MakeGymnasium:
    """Makes one environment that Gymnasium registers; travels between processes."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name, self._options = name, dict(options)

    def __call__(self) -> FromGymnasium:
        """Make it."""
        return FromGymnasium(gymnasium.make(self._name, **self._options))


@final
class FromGymnasiumVector:
    """A Gymnasium vector environment, whatever its way to begin anew.

    ``NEXT_STEP``: after an end the next step of that environment only resets it, and what is done is ignored. Such a
    step is not in ``row``, which then has ``lanes``: those that stepped. ``SAME_STEP`` and ``DISABLED`` (where resets
    are called for here) begin anew at once, as all other environments here do.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self._envs = envs
        self.num_envs = int(envs.num_envs)
        spec = envs.spec
        self.name = spec.id if spec is not None else type(envs).__name__
        self.limit = spec.max_episode_steps if spec is not None else None
        self.groups = (AgentGroup("", ("agent",), envs.single_observation_space, envs.single_action_space),)
        self.state_space: Space[Any] | None = None
        self.shared_reward = False
        self.schema = schema_of(self.groups, None, shared_reward=False)
        mode = envs.metadata.get("autoreset_mode")
        if mode not in list(AutoresetMode):
            rule = "say how they begin anew in metadata['autoreset_mode']"
            raise OptionError("envs", rule, repr(mode), "Set it to a gymnasium.vector.AutoresetMode.")
        self._mode = AutoresetMode(mode)
        self._seen: dict[str, Array] = {}
        self._over = np.zeros(self.num_envs, bool)

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Begin new episodes everywhere and return what is seen."""
        obs, _ = self._envs.reset(seed=None if seed is None else seeds_for(seed, self.num_envs))
        self._over[:] = False
        self._seen = self._see(obs)
        return self._seen

    def step(self, action: Mapping[str, Any] | Any) -> Step:
        """Take a step everywhere."""
        check_started(self._seen)
        given = {key: np.asarray(value) for key, value in as_actions(self.groups, action).items()}
        for key, value in given.items():
            if value.shape[:2] != (self.num_envs, 1):
                raise OptionError(key, f"have shape [{self.num_envs}, 1, ...]", list(value.shape))
        chosen = nest(self._envs.single_action_space, {key: value[:, 0] for key, value in given.items()}, "action")
        obs, reward, terminated, truncated, info = self._envs.step(chosen)
        seen = self._see(obs)
        live = ~self._over
        terminated, truncated = terminated & live, truncated & ~terminated & live
        ended = terminated | truncated
        row: dict[str, Any] = {**self._seen, **given, "reward": np.asarray(reward, np.float32)[:, None]}
        row["terminated"], row["truncated"] = terminated, truncated
        if ended.any():
            final = self._final(seen, info, ended) if self._mode is AutoresetMode.SAME_STEP else seen
            row |= {key.replace("obs", "final_obs", 1): value for key, value in final.items()}
            if self._mode is AutoresetMode.DISABLED:
                obs, _ = self._envs.reset(options={"reset_mask": ended})
                seen = self._see(obs)
        if self._mode is AutoresetMode.NEXT_STEP:
            if not live.all():
                row = keep_lanes(row, np.flatnonzero(live))
            self._over = ended
        self._seen = seen
        reported = {k: v for k, v in info.items() if isinstance(v, np.ndarray) and v.dtype.kind in "biuf"}
        return Step(seen, row, terminated, truncated, reported)

    def _see(self, obs: Any) -> dict[str, Array]:
        # Vector environments may write the next observations into the same arrays.
        parts = flat(self._envs.single_observation_space, obs, "obs")
        return {key: value[:, None].copy() for key, value in parts.items()}

    def _final(self, seen: Mapping[str, Array], info: Mapping[str, Any], ended: Array) -> dict[str, Array]:
        final = {key: value.copy() for key, value in seen.items()}
        for index in np.flatnonzero(ended):
            one = info["final_obs"][index]
            for key, value in flat(self._envs.single_observation_space, one, "obs").items():
                final[key][index, 0] = value
        return final

    def render(self, index: int = 0) -> Array:
        """A picture of one environment, if they were made with ``render_mode="rgb_array"``."""
        pictures = self._envs.render()
        if pictures is None:
            raise OptionError("render_mode", "be 'rgb_array' for a picture", repr(self._envs.render_mode))
        return np.asarray(pictures[index])

    def close(self) -> None:
        """Close all."""
        self._envs.close()
