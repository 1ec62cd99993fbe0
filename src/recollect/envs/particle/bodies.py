"""What a particle world is made of, and what a scenario says about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, final

from recollect.envs.interface import Array

if TYPE_CHECKING:
    from recollect.envs.dice import Dice
    from recollect.envs.particle.world import World

__all__ = ["Agent", "Colour", "Landmark", "Scenario"]

Colour: TypeAlias = tuple[int, int, int]


@final
@dataclass(frozen=True, slots=True)
class Agent:
    """A body with a will.

    Args:
        name: Ends in a number; what comes before it names the group: ``adversary_0``.
        accel: Force of a full push.
        speaks: Whether it says one of the scenario's words at every step.
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
    """A body that stays where it is.

    Args:
        spread: It is placed within this distance of the middle along each axis.
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
        agents: Alike ones in a row; those of one group see and do things of one shape.
        see: What an agent, given by its number, observes: arrays ``[n, E]``, one after another.
        reward: Rewards ``[A, E]``.
        words: How many words there are to say.
        draws: Whole numbers drawn at the start of every episode, below these bounds: ``world.drawn["goal"]``, ``[E]``.
        begin: Puts bodies elsewhere than at random in some environments whose episodes begin.
        succeeded: Where the episode is over before its time, ``[E]``.
        report: What to say about episodes that end, ``[E]`` each.
        tint: Colours of bodies, by number, in a picture of one environment that differ from their own.
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
