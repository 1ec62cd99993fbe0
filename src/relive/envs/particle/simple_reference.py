"""Two agents each know where the other one should go, and talk."""

from __future__ import annotations

import numpy as np

from relive.envs.options import proportion
from relive.envs.particle.bodies import Agent, Colour, Landmark, Scenario
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple_reference"]

_COLOURS = np.array([[0.75, 0.25, 0.25], [0.25, 0.75, 0.25], [0.25, 0.25, 0.75]])
_SHOWN: tuple[Colour, ...] = ((224, 49, 49), (47, 158, 68), (28, 126, 214))


def simple_reference(local_ratio: float = 0.5) -> Scenario:
    """Two agents each know where the other one should go, and talk.

    Args:
        local_ratio: Weight of the distance that an agent's own words are about; the rest is the mean of both.
    """
    proportion("local_ratio", local_ratio)

    def goals(world: World) -> tuple[Array, Array]:
        return world.drawn["goal_of_1"], world.drawn["goal_of_0"]

    def see(world: World, me: int) -> list[Array]:
        return [world.vel[me], world.to_landmarks(me), _COLOURS[goals(world)[me]].T, world.said[1 - me]]

    def reward(world: World) -> Array:
        of_1, of_0 = goals(world)
        each = np.arange(world.num_envs)
        local = -np.stack([world.distance[1, 2 + of_1, each], world.distance[0, 2 + of_0, each]])
        return local.mean(axis=0) * (1 - local_ratio) + local * local_ratio

    def tint(world: World, index: int) -> dict[int, Colour]:
        of_1, of_0 = goals(world)
        return {0: _SHOWN[int(of_0[index])], 1: _SHOWN[int(of_1[index])]}

    return Scenario(
        name="simple_reference",
        agents=tuple(Agent(f"agent_{i}", speaks=True, collides=False) for i in range(2)),
        landmarks=tuple(Landmark(f"landmark {i}", colour=_SHOWN[i]) for i in range(3)),
        words=10,
        draws={"goal_of_1": 3, "goal_of_0": 3},
        see=see,
        reward=reward,
        tint=tint,
    )
