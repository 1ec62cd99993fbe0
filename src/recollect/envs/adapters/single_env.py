"""One environment with many agents, on its way to being one of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium import Space, spaces

from recollect.envs.interface import AgentGroup, Array

__all__ = ["SingleEnv", "SingleStep", "flat", "is_number", "leaves", "nest", "seed31", "stack"]


class SingleStep(NamedTuple):
    """What a step of one environment brought."""

    obs: dict[str, Array]
    """What is seen after the step, also when it was the last."""
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
        """Begin an episode."""

    def step(self, action: Mapping[str, Array]) -> SingleStep:
        """Take a step; the episode is not begun anew."""

    def render(self) -> Array:
        """A picture."""

    def close(self) -> None:
        """Let go of what is held open."""


def flat(space: Space[Any], value: Any, key: str) -> dict[str, Array]:
    """A value of a space by the memory's names: parts of nested ones after a slash.

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
    """The value of a space from its parts by the memory's names."""
    if isinstance(space, spaces.Dict):
        return {name: nest(inner, values, f"{key}/{name}") for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nest(inner, values, f"{key}/{i}") for i, inner in enumerate(space.spaces))
    if isinstance(space, spaces.Discrete) and np.ndim(values[key]) == 0:
        return space.dtype.type(values[key]) if space.dtype is not None else int(values[key])
    return np.asarray(values[key], dtype=space.dtype)


def leaves(space: Space[Any], key: str) -> dict[str, Space[Any]]:
    """The plain spaces that a space is made of, by the memory's names."""
    if isinstance(space, spaces.Dict):
        parts = [leaves(inner, f"{key}/{name}") for name, inner in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [leaves(inner, f"{key}/{i}") for i, inner in enumerate(space.spaces)]
    else:
        return {key: space}
    return {name: part for found in parts for name, part in found.items()}


def is_number(value: Any) -> bool:
    """Whether something that an info has is one number."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def seed31(seed: int | None) -> int | None:
    """A seed that every environment takes: of 31 bits."""
    return None if seed is None else seed & 0x7FFFFFFF


def stack(parts: list[dict[str, Array]]) -> dict[str, Array]:
    """Arrays of the same names along a new first axis."""
    return {key: np.array([part[key] for part in parts]) for key in parts[0]}
