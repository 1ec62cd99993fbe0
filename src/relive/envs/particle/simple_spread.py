"""Cooperative navigation: agents cover all landmarks together and avoid collisions."""

from __future__ import annotations

import numpy as np

from relive.envs.options import positive, proportion
from relive.envs.particle.bodies import Agent, Landmark, Scenario
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple_spread"]

_COVERED = 0.1


def simple_spread(
    N: int = 3,  # noqa: N803  (mpe2's name)
    local_ratio: float = 0.5,
    num_agent_neighbors: int | None = None,
    num_landmark_neighbors: int | None = None,
    *,
    collision_penalty: bool = True,
    terminate_on_success: bool = False,
) -> Scenario:
    """Cooperative navigation: agents cover all landmarks together and avoid collisions.

    Args:
        N: Number of agents and of landmarks.
        local_ratio: Weight of an agent's own reward (-1 a collision); the rest is shared (minus the distance from each
            landmark to its nearest agent).
        num_agent_neighbors: How many others an agent sees, the nearest; None: all.
        num_landmark_neighbors: How many landmarks an agent sees, the nearest; None: all.
        collision_penalty: False is the first stage of mpe2's curriculum.
        terminate_on_success: Whether an episode terminates once all landmarks are covered.
    """
    positive("N", N)
    proportion("local_ratio", local_ratio)
    peers = positive("num_agent_neighbors", num_agent_neighbors, none=True)
    marks = positive("num_landmark_neighbors", num_landmark_neighbors, none=True)
    words = 2  # observed by all, emitted by none: mpe2's observations have the room

    def see(world: World, me: int) -> list[Array]:
        parts = [world.vel[me], world.pos[me]]
        if marks is None:
            parts.append(world.to_landmarks(me))
        else:
            parts.append(world.to_nearest(me, world.nearest(me, range(N, 2 * N), marks), marks))
        if peers is None:
            return [*parts, *world.to_agents(me), *(world.said[other] for other in world.others(me))]
        nearest = world.nearest(me, world.others(me), peers)
        return [*parts, world.to_nearest(me, nearest, peers), np.zeros((words * peers, world.num_envs))]

    def reward(world: World) -> Array:
        shared = -world.distance[:, N:].min(axis=0).sum(axis=0)
        if not collision_penalty:
            return np.broadcast_to(shared * (1 - local_ratio), (N, world.num_envs))
        touched = (world.distance[:, :N] < world.touching[0, 0]).sum(axis=1) - 1.0  # without itself
        return shared * (1 - local_ratio) - touched * local_ratio

    def covered(world: World) -> Array:
        return world.distance[:, N:].min(axis=0) < _COVERED

    def report(world: World) -> dict[str, Array]:
        touched = (world.distance[:, :N] < world.touching[0, 0]).sum(axis=(0, 1)) - N
        return {"covered": covered(world).sum(axis=0), "collisions": touched // 2}

    return Scenario(
        name="simple_spread",
        agents=tuple(Agent(f"agent_{i}", size=0.15) for i in range(N)),
        landmarks=tuple(Landmark(f"landmark {i}") for i in range(N)),
        words=words,
        see=see,
        reward=reward,
        succeeded=(lambda world: np.asarray(covered(world).all(axis=0))) if terminate_on_success else None,
        report=report,
    )
