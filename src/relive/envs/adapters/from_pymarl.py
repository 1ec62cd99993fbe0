"""Adapter of environments with PyMARL's interface: SMAC, SMACv2, EPyMARL's and others."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.adapters.single_env import SingleStep, seed31
from relive.envs.checks import check_shape
from relive.envs.dice import seeds
from relive.envs.interface import AgentGroup
from relive.errors import EnvError, OptionError
from relive.types import Array

__all__ = ["FromPymarl", "MakePymarl"]


_METHODS = ("reset", "step", "get_obs", "get_state", "get_avail_actions", "get_env_info")


@final
class FromPymarl:
    """One environment with ``get_obs``, ``get_state``, ``get_avail_actions``, ``get_env_info``, ``reset`` and ``step``.

    ``step`` may return ``reward, terminated, info`` (PyMARL, SMAC) or ``obs, reward, terminated, truncated, info``
    (newer EPyMARL). An end with ``episode_limit`` in ``info`` is a truncation.

    Args:
        shared_reward: False if rewards are per agent.
    """

    def __init__(self, env: Any, *, shared_reward: bool = True) -> None:
        missing = [method for method in _METHODS if not hasattr(env, method)]
        if missing:
            raise OptionError("env", "have PyMARL's methods", f"no {', '.join(missing)}")
        self._env = env
        self._seedable = bool({"seed", "kwargs"} & set(_parameters(env.reset)))
        try:
            info = env.get_env_info()
        except (AttributeError, TypeError):  # some know their sizes only after the first reset
            env.reset()
            info = env.get_env_info()
        self.name = str(getattr(env, "map_name", type(env).__name__))
        agents, choices = int(info["n_agents"]), int(info["n_actions"])
        obs = spaces.Box(-np.inf, np.inf, _shape(info["obs_shape"]), np.float32)
        names = tuple(f"agent_{i}" for i in range(agents))
        self.groups: tuple[AgentGroup, ...] = (AgentGroup("", names, obs, spaces.Discrete(choices), avail=True),)
        self.state_space: Space[Any] | None = spaces.Box(-np.inf, np.inf, _shape(info["state_shape"]), np.float32)
        self.shared_reward = shared_reward
        self.report_names: tuple[str, ...] = ("battle_won",)  # what SMAC reports
        limit = info.get("episode_limit")
        self.max_episode_steps = int(limit) if limit is not None else None

    def reset(self, seed: int | None = None) -> dict[str, Array]:
        """Reset the environment."""
        seed = seed31(seed)
        if seed is None:
            self._env.reset()
        elif self._seedable:
            self._env.reset(seed=seed)
        else:
            if _takes_seed(self._env):
                self._env.seed(seed)
            else:
                warnings.warn(
                    f"{self.name} takes a seed when it is made, not when it is reset: this one has no effect",
                    stacklevel=2,
                )
            self._env.reset()
        return self._see()

    def step(self, action: Mapping[str, Array]) -> SingleStep:
        """Step the environment."""
        returned = self._env.step([int(choice) for choice in action["action"]])
        if len(returned) == 3:
            reward, over, info = returned
            cut = False
        elif len(returned) == 5:
            _, reward, over, cut, info = returned
        else:
            raise EnvError(f"step of {self.name}", "return 3 or 5 values", len(returned))
        ended = bool(np.all(np.asarray(over, bool) | np.asarray(cut, bool)))
        terminated = ended and bool(np.all(over)) and not info.get("episode_limit", False)
        truncated = ended and not terminated
        value = np.array(reward, np.float32)
        agents = len(self.groups[0])
        expected = () if self.shared_reward else (agents,)
        if self.shared_reward and value.size == 1 and agents != 1:
            value = value.reshape(())
        if value.shape != expected:
            other = (agents,) if self.shared_reward else ()
            remedy = f"Pass shared_reward={not self.shared_reward}." if value.shape == other else ""
            raise EnvError(f"reward of {self.name}", f"have shape {list(expected)}", list(value.shape), remedy)
        return SingleStep(self._see(), {"reward": value}, terminated, truncated, dict(info))

    def _see(self) -> dict[str, Array]:
        (group,) = self.groups
        obs = [np.asarray(seen, np.float32) for seen in self._env.get_obs()]
        for agent, seen in zip(group.agents, obs, strict=False):
            check_shape(f"obs of {agent} of {self.name}", seen, group.obs_space.shape or ())
        return {
            "obs": np.array(obs),
            "avail_actions": np.array(self._env.get_avail_actions()) > 0,
            "state": np.array(self._env.get_state(), np.float32),
        }

    def render(self) -> Array:
        """An image, if the environment can be rendered."""
        try:
            picture = (
                self._env.render(mode="rgb_array") if "mode" in _parameters(self._env.render) else self._env.render()
            )
        except (AttributeError, NotImplementedError):
            picture = None
        if not isinstance(picture, np.ndarray):
            raise OptionError("environment", "be able to draw itself", self.name)
        return picture

    def close(self) -> None:
        """Close it."""
        self._env.close()


@final
class MakePymarl:
    """Makes one environment of a class given as ``module:Class``; picklable.

    Args:
        index: Its index among several: a ``seed`` among the options is offset by it.
    """

    def __init__(self, path: str, options: Mapping[str, Any], index: int = 0) -> None:
        self._path, self._options = path, dict(options)
        if self._options.get("seed") is not None:
            self._options["seed"] = seed31(seeds(self._options["seed"], index + 1)[index])

    def __call__(self) -> FromPymarl:
        """Make it."""
        module, _, name = self._path.partition(":")
        if not module or not name:
            raise OptionError("environment", "be given as module:Class", repr(self._path))
        try:
            made = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise OptionError(
                "environment", "name a class that can be imported", repr(self._path), str(error)
            ) from None
        missing = [method for method in _METHODS if not callable(getattr(made, method, None))]
        if not isinstance(made, type) or missing:
            lacks = f"one without {', '.join(missing)}" if isinstance(made, type) else "no class"
            raise OptionError("environment", "name a class with PyMARL's methods", f"{self._path!r}, {lacks}")
        options = dict(self._options)
        shared = bool(options.pop("shared_reward", True))
        return FromPymarl(made(**options), shared_reward=shared)


def _parameters(call: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return ()


def _takes_seed(env: Any) -> bool:
    """Whether ``seed`` sets the seed: SMAC's only returns it."""
    return callable(getattr(env, "seed", None)) and bool(_parameters(env.seed))


def _shape(size: Any) -> tuple[int, ...]:
    return (int(size),) if np.ndim(size) == 0 else tuple(int(n) for n in size)
