"""A speaker that cannot move names the landmark that a listener, who does not know it, should go to."""

from __future__ import annotations

import numpy as np

from relive.envs.particle.bodies import Agent, Colour, Landmark, Scenario
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple_speaker_listener"]

_COLOURS = np.array([[0.65, 0.15, 0.15], [0.15, 0.65, 0.15], [0.15, 0.15, 0.65]])
_SHOWN: tuple[Colour, ...] = ((224, 49, 49), (47, 158, 68), (28, 126, 214))


def simple_speaker_listener() -> Scenario:
    """A speaker that cannot move names the landmark that a listener, who does not know it, should go to."""

    def see(world: World, me: int) -> list[Array]:
        if me == 0:
            return [_COLOURS[world.drawn["goal"]].T]
        return [world.vel[1], world.to_landmarks(1), world.said[0]]

    def reward(world: World) -> Array:
        away = world.distance[1, 2 + world.drawn["goal"], np.arange(world.num_envs)]
        return np.broadcast_to(-np.square(away), (2, world.num_envs))

    def tint(world: World, index: int) -> dict[int, Colour]:
        return {1: _SHOWN[int(world.drawn["goal"][index])]}

    return Scenario(
        name="simple_speaker_listener",
        agents=(
            Agent("speaker_0", size=0.075, moves=False, speaks=True, collides=False, colour=(90, 98, 110)),
            Agent("listener_0", size=0.075, collides=False),
        ),
        landmarks=tuple(Landmark(f"landmark {i}", size=0.04, colour=_SHOWN[i]) for i in range(3)),
        words=3,
        draws={"goal": 3},
        see=see,
        reward=reward,
        tint=tint,
    )
