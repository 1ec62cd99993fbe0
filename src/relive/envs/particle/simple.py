"""One agent goes to one landmark: for trying things out."""

from __future__ import annotations

import numpy as np

from relive.envs.particle.bodies import Agent, Landmark, Scenario
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple"]


def simple() -> Scenario:
    """One agent goes to one landmark: for trying things out."""

    def see(world: World, me: int) -> list[Array]:
        return [world.vel[me], world.to_landmarks(me)]

    def reward(world: World) -> Array:
        return -np.square(world.distance[:, 1])

    return Scenario(
        name="simple",
        agents=(Agent("agent_0", collides=False),),
        landmarks=(Landmark("landmark 0", colour=(224, 49, 49)),),
        see=see,
        reward=reward,
    )
