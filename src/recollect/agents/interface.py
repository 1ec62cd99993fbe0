"""What an algorithm is made of: settings, a learner that learns from a memory, actors that act in environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from recollect.envs.interface import Env
from recollect.memory import Memory

__all__ = ["Actor", "Algorithm", "Learner", "Weights"]


class Weights(NamedTuple):
    """What a learner publishes for actors."""

    version: int
    """Rises with every change."""
    tensors: dict[str, Tensor]
    """By name; they may be the learner's own, so actors copy them."""


class Actor(Protocol):
    """Agents that act in some environments, by weights and a generator of their own."""

    def act(self, obs: Mapping[str, Any], step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """Actions ``[E, A, ...]`` by field name, and what else rows of this step hold, ``[E, ...]`` by field name.

        Args:
            obs: What the environments show, by field name.
            step: Environment steps so far, which exploration depends on.
        """

    def reset(self, mask: np.ndarray[Any, Any]) -> None:
        """Begin anew where episodes ended, ``[E]`` booleans."""

    def load(self, weights: Weights) -> None:
        """Take weights that a learner published, unless they are the ones it has."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


class Learner(Protocol):
    """What learns from a memory."""

    memory: Memory | None
    updates: int

    def learn(self) -> dict[str, float]:
        """One update from what the memory gives; metrics by name."""

    def weights(self) -> Weights:
        """What actors need."""

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> Actor:
        """An actor with the weights of now."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


class Algorithm(Protocol):
    """Settings: a frozen dataclass that holds data only."""

    @property
    def name(self) -> str:
        """What it is called by."""

    @property
    def summary(self) -> str:
        """What it is, in a line."""

    @property
    def default_num_envs(self) -> int:
        """Vectorised environments that suit it."""

    def updates_due(self, steps: int, episodes: int, /) -> int:
        """Updates that there should have been after so many environment steps and episodes."""

    def memory(self, env: Env, seed: int) -> Memory:
        """The memory it learns from: the environment's schema and its own fields, its window and sampler."""

    def evict(self, memory: Memory, episodes: int, fresh: int) -> None:
        """Forget what is not wanted any more, after some episodes ended.

        Args:
            episodes: How many there have been.
            fresh: How many of these are new.
        """

    def learner(self, env: Env, memory: Memory | None, *, device: torch.device | str, seed: int) -> Learner:
        """A learner of these settings.

        Args:
            env: Its agents and spaces.
            memory: What it learns from; None: it will only act.
        """
