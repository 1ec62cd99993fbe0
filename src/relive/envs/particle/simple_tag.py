"""Predators chase faster prey around obstacles."""

from __future__ import annotations

import numpy as np

from relive.envs.options import positive
from relive.envs.particle.bodies import Agent, Landmark, Scenario
from relive.envs.particle.world import World
from relive.errors import OptionError
from relive.types import Array

__all__ = ["outside", "simple_tag"]


def simple_tag(
    num_good: int = 1,
    num_adversaries: int = 3,
    num_obstacles: int = 2,
    num_agent_neighbors: int | None = None,
    num_landmark_neighbors: int | None = None,
    prey_speed: float = 1.0,
    *,
    terminate_on_success: bool = False,
) -> Scenario:
    """Predators chase faster prey around obstacles.

    Args:
        num_good: Prey.
        num_adversaries: Predators.
        num_agent_neighbors: How many others an agent sees, the nearest; None: all.
        num_landmark_neighbors: How many obstacles an agent sees, the nearest; None: all.
        prey_speed: Fraction of its full speed; 0.5, 0.75 and 1 are the stages of mpe2's curriculum.
        terminate_on_success: Whether an episode terminates once all prey are caught at the same time.
    """
    positive("num_good", num_good)
    hunters = positive("num_adversaries", num_adversaries)
    positive("num_obstacles", num_obstacles, least=0)
    peers = positive("num_agent_neighbors", num_agent_neighbors, none=True)
    marks = positive("num_landmark_neighbors", num_landmark_neighbors, none=True)
    if not isinstance(prey_speed, (int, float)) or not 0 < prey_speed <= 10:
        raise OptionError("prey_speed", "be above 0 and at most 10", repr(prey_speed))
    total = hunters + num_good

    def see(world: World, me: int) -> list[Array]:
        parts = [world.vel[me], world.pos[me]]
        if marks is None:
            parts.append(world.to_landmarks(me))
        else:
            nearest = world.nearest(me, range(total, total + num_obstacles), marks)
            parts.append(world.to_nearest(me, nearest, marks))
        if peers is None:
            return [*parts, *world.to_agents(me), *(world.vel[prey] for prey in range(hunters, total) if prey != me)]
        nearest = world.nearest(me, world.others(me), peers)
        speeds = np.zeros((peers, 2, world.num_envs))
        speeds[: len(nearest)] = np.take_along_axis(world.vel, nearest[:, None], axis=0) * (nearest >= hunters)[:, None]
        return [*parts, world.to_nearest(me, nearest, peers), speeds.reshape(-1, world.num_envs)]

    def caught(world: World) -> Array:
        return world.distance[:hunters, hunters:total] < world.touching[0, hunters]

    def reward(world: World) -> Array:
        hits = caught(world)
        rewards = np.empty((total, world.num_envs))
        rewards[:hunters] = 10.0 * hits.sum(axis=(0, 1))
        rewards[hunters:] = -10.0 * hits.sum(axis=0) - outside(world.pos[hunters:total])
        return rewards

    return Scenario(
        name="simple_tag",
        agents=(
            *(
                Agent(f"adversary_{i}", size=0.075, accel=3.0, max_speed=1.0, colour=(224, 49, 49))
                for i in range(hunters)
            ),
            *(
                Agent(f"agent_{i}", accel=4.0 * prey_speed, max_speed=1.3 * prey_speed, colour=(47, 158, 68))
                for i in range(num_good)
            ),
        ),
        landmarks=tuple(Landmark(f"landmark {i}", size=0.2, spread=0.9, collides=True) for i in range(num_obstacles)),
        see=see,
        reward=reward,
        succeeded=(lambda world: np.asarray(caught(world).any(axis=0).all(axis=0))) if terminate_on_success else None,
        report=lambda world: {"caught": caught(world).sum(axis=(0, 1))},
    )


def outside(pos: Array) -> Array:
    """The penalty of leaving the field, so that prey cannot flee for ever; from ``[A, 2, E]`` to ``[A, E]``."""
    far = np.abs(pos)
    price = np.where(far < 1.0, np.maximum(far - 0.9, 0.0) * 10, np.exp(2 * np.minimum(far, 3.0) - 2))
    return np.minimum(price, 10.0).sum(axis=1)
