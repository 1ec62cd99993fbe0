"""Bodies of particle worlds, and the interface of scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, final

from relive.types import Array

if TYPE_CHECKING:
    from relive.envs.dice import Dice
    from relive.envs.particle.world import World

__all__ = ["Agent", "Colour", "Landmark", "Scenario"]

Colour: TypeAlias = tuple[int, int, int]


@final
@dataclass(frozen=True, slots=True)
class Agent:
    """A body controlled by an agent.

    Args:
        name: The group's name and a number: ``adversary_0``.
        accel: Force of a full action.
        speaks: Whether it emits a communication symbol at every step.
    """

    name: str
    size: float = 0.05
    accel: float = 5.0
    max_speed: float | None = None
    moves: bool = True
    speaks: bool = False
    collides: bool = True
    colour: Colour = (66, 99, 235)


@final
@dataclass(frozen=True, slots=True)
class Landmark:
    """A body that does not move.

    Args:
        spread: It is placed within this distance of the centre along each axis.
    """

    name: str
    size: float = 0.05
    spread: float = 1.0
    collides: bool = False
    colour: Colour = (90, 98, 110)


@final
@dataclass(frozen=True, slots=True)
class Scenario:
    """The rules of one particle world. Arrays have the environments last: ``[..., E]``.

    Args:
        agents: Agents, those of one group consecutive and with equal spaces.
        see: The observation of an agent, given by its index: arrays ``[n, E]`` to concatenate.
        reward: Rewards ``[A, E]``.
        words: Size of the communication vocabulary.
        draws: Bounds of integers drawn at the start of every episode: ``world.drawn["goal"]``, ``[E]``.
        begin: Places bodies, other than at random, in environments that are reset.
        succeeded: Where the episode terminates early, ``[E]``.
        report: Metrics of episodes that end, ``[E]`` each.
        tint: Colours of bodies, by index, that differ from their own when one environment is rendered.
    """

    name: str
    agents: tuple[Agent, ...]
    landmarks: tuple[Landmark, ...]
    see: Callable[[World, int], list[Array]]
    reward: Callable[[World], Array]
    words: int = 0
    draws: Mapping[str, int] = field(default_factory=dict)
    begin: Callable[[World, Array, Dice], None] | None = None
    succeeded: Callable[[World], Array] | None = None
    report: Callable[[World], dict[str, Array]] | None = None
    tint: Callable[[World, int], dict[int, Colour]] | None = None
