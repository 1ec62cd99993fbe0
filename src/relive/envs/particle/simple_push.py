"""An agent goes to its goal; an adversary that does not know which landmark it is pushes it away."""

from __future__ import annotations

import numpy as np

from relive.envs.particle.bodies import Agent, Colour, Landmark, Scenario
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple_push"]

_COLOURS = np.array([[0.1, 0.9, 0.1], [0.1, 0.1, 0.9]])
_AGENT_COLOURS = np.array([[0.25, 0.75, 0.25], [0.25, 0.25, 0.75]])
_SHOWN: tuple[Colour, Colour] = ((47, 158, 68), (28, 126, 214))


def simple_push() -> Scenario:
    """An agent goes to its goal; an adversary that does not know which landmark it is pushes it away."""

    def see(world: World, me: int) -> list[Array]:
        if me == 0:
            return [world.vel[0], world.to_landmarks(0), world.offset[0, 1]]
        goal = world.drawn["goal"]
        return [
            world.vel[1],
            np.where(goal, world.offset[1, 3], world.offset[1, 2]),
            _AGENT_COLOURS[goal].T,
            world.to_landmarks(1),
            np.broadcast_to(_COLOURS.reshape(6, 1), (6, world.num_envs)),
            world.offset[1, 0],
        ]

    def reward(world: World) -> Array:
        away = np.where(world.drawn["goal"], world.distance[:, 3], world.distance[:, 2])
        return np.stack([away[1] - away[0], -away[1]])

    def tint(world: World, index: int) -> dict[int, Colour]:
        return {1: _SHOWN[int(world.drawn["goal"][index])]}

    return Scenario(
        name="simple_push",
        agents=(Agent("adversary_0", colour=(224, 49, 49)), Agent("agent_0")),
        landmarks=tuple(Landmark(f"landmark {i}", colour=_SHOWN[i]) for i in range(2)),
        draws={"goal": 2},
        see=see,
        reward=reward,
        tint=tint,
    )
