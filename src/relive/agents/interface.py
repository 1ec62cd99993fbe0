"""What an algorithm is made of: settings, a learner that learns from a memory, actors that act in environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, final, runtime_checkable

import torch
from torch import Tensor, nn

from relive.envs.interface import Env
from relive.memory import Memory, Rollout, Storage
from relive.types import Array, Arrays

__all__ = ["Actor", "Algorithm", "Experience", "Exports", "Learner", "Schedule", "Weights"]

Experience: TypeAlias = Memory | Rollout
"""What a learner learns from."""


@final
@dataclass(frozen=True)
class Schedule:
    """When updates are due: one for every so many environment steps or ended episodes.

    Args:
        every: Steps or episodes for an update. A rollout of T steps in E environments is due every T * E steps.
        first: Steps or episodes before the first update.

    >>> [Schedule(10, first=25).updates_due(steps, episodes=0) for steps in (24, 25, 34, 35)]
    [0, 1, 1, 2]
    """

    every: float
    unit: Literal["steps", "episodes"] = "steps"
    first: int = 1

    def updates_due(self, steps: int, episodes: int) -> int:
        """Updates that there should have been after so many."""
        done, first = steps if self.unit == "steps" else episodes, max(self.first, 1)
        return 0 if done < first else int((done - first) / self.every) + 1


class Weights(NamedTuple):
    """What a learner publishes for actors."""

    version: int
    """Rises with every change."""
    tensors: dict[str, Tensor]
    """By name; they may be the learner's own, so actors copy them."""


class Actor(Protocol):
    """Agents that act in some environments, by weights and a generator of their own."""

    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions ``[E, A, ...]`` by field name, and what else rows of this step hold, ``[E, ...]`` by field name.

        Args:
            obs: What the environments show, by field name.
            step: Environment steps so far, which exploration depends on.
        """

    def reset(self, mask: Array) -> None:
        """Reset what is kept of an episode where it ended, ``[E]`` booleans."""

    def load(self, weights: Weights) -> None:
        """Take weights that a learner published, unless they are the ones it has."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


class Learner(Protocol):
    """What learns from a memory."""

    def learn(self, memory: Any, obs: Arrays, /) -> dict[str, float]:
        """One update from what the memory gives; metrics by name. ``samples`` is how many steps it learned from.

        Args:
            memory: What ``Algorithm.memory`` made.
            obs: What environments show now, by field name, which a rollout's returns go on from.
        """

    def weights(self) -> Weights:
        """What actors need."""

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> Actor:
        """An actor with the weights of now."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


@runtime_checkable
class Exports(Protocol):
    """Learners whose policies can be taken elsewhere."""

    def policy_module(self) -> nn.Module:
        """The policies alone: a module of tensors with ``inputs`` (shape and dtype by name) and ``outputs`` (names)."""

    def agent_modules(self) -> Mapping[str, nn.Module]:
        """What acts for the agents of every group, by its name. Tensors of their states have the agents first."""


class Algorithm(Protocol):
    """Settings: a frozen dataclass that holds data only, registered by its name.

    What it may have besides: ``summary``, a line in place of its docstring's first; ``single_agent``, whether it learns
    one agent, whose environments then have no axis of agents; ``default_num_envs``, how many vectorised environments
    suit it; ``presets``, settings of published code by its name; ``search_space``, ranges that ``relive tune``
    searches; ``advice(env, metrics)``, what to say after the first evaluation of a run that is probably not meant.
    """

    @property
    def name(self) -> str:
        """What it is called by."""

    def schedule(self, num_envs: int, /) -> Schedule:
        """When updates are due.

        Args:
            num_envs: Environments that step at once.
        """

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Experience:
        """The memory it learns from: the environment's schema and its own fields, its window and sampler.

        Args:
            lanes: Environments that write to it.
            storage: Where rows live; None: in RAM.
        """

    def learner(self, env: Env, *, device: torch.device | str, seed: int) -> Learner:
        """A learner of these settings, for an environment's agents and spaces."""
