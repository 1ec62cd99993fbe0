"""The interface of single environments, which SyncEnvs and Pool vectorise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from relive.envs.interface import AgentGroup
from relive.errors import OptionError
from relive.types import Array

__all__ = ["Rendered", "SingleEnv", "SingleStep", "flat", "is_number", "leaves", "nest", "seed31", "stack"]


class SingleStep(NamedTuple):
    """The result of a step of one environment."""

    obs: dict[str, Array]
    """The observation after the step, the final one too."""
    reward: dict[str, Array]
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class SingleEnv(Protocol):
    """One environment: arrays by the memory's names, agents first."""

    name: str
    groups: tuple[AgentGroup, ...]
    state_space: Space[Any] | None
    shared_reward: bool
    max_episode_steps: int | None

    def reset(self, seed: int | None = None) -> dict[str, Array]:
        """Reset the environment."""

    def step(self, action: Mapping[str, Array]) -> SingleStep:
        """Step the environment, without autoreset."""

    def render(self) -> Array:
        """An image, RGB bytes."""

    def close(self) -> None:
        """Release resources."""


def flat(space: Space[Any], value: Any, key: str) -> dict[str, Array]:
    """A value of a space by field names: parts of nested ones after a slash.

    >>> space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Tuple([spaces.Discrete(4)]))
    >>> {name: int(part) for name, part in flat(space, {"a": 2, "b": (1,)}, "obs").items()}
    {'obs/a': 2, 'obs/b/0': 1}
    """
    if isinstance(space, spaces.Dict):
        parts = [flat(inner, value[name], f"{key}/{name}") for name, inner in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [flat(inner, value[i], f"{key}/{i}") for i, inner in enumerate(space.spaces)]
    else:
        return {key: np.array(value)}  # a copy: environments may write the next one into the same array
    return {name: part for found in parts for name, part in found.items()}


def nest(space: Space[Any], values: Mapping[str, Any], key: str) -> Any:
    """The value of a space from its parts by field name."""
    if isinstance(space, spaces.Dict):
        return {name: nest(inner, values, f"{key}/{name}") for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nest(inner, values, f"{key}/{i}") for i, inner in enumerate(space.spaces))
    if isinstance(space, spaces.Discrete) and np.ndim(values[key]) == 0:
        return space.dtype.type(values[key]) if space.dtype is not None else int(values[key])
    return np.asarray(values[key], dtype=space.dtype)


def leaves(space: Space[Any], key: str) -> dict[str, Space[Any]]:
    """The leaf spaces of a nested space, by field name."""
    if isinstance(space, spaces.Dict):
        parts = [leaves(inner, f"{key}/{name}") for name, inner in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [leaves(inner, f"{key}/{i}") for i, inner in enumerate(space.spaces)]
    else:
        return {key: space}
    return {name: part for found in parts for name, part in found.items()}


def is_number(value: object) -> bool:
    """Whether an entry of an info is a scalar."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def seed31(seed: int | None) -> int | None:
    """A seed of 31 bits, which every environment accepts."""
    return None if seed is None else seed & 0x7FFFFFFF


def stack(parts: list[dict[str, Array]]) -> dict[str, Array]:
    """Arrays by name, stacked along a new first axis."""
    return {key: np.array([part[key] for part in parts]) for key in parts[0]}


class Rendered:
    """Adapters of environments that Gymnasium renders and closes."""

    _env: gymnasium.Env[Any, Any]

    def render(self) -> Array:
        """An image, if the environment was made with ``render_mode="rgb_array"``."""
        picture = self._env.render()
        if not isinstance(picture, np.ndarray):
            raise OptionError("render_mode", "be 'rgb_array' for a picture", repr(self._env.render_mode))
        return picture

    def close(self) -> None:
        """Close it."""
        self._env.close()
