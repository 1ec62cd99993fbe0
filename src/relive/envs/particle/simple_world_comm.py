"""Predators chase prey that look for food; their leader sees into the forests and communicates."""

from __future__ import annotations

import numpy as np

from relive.envs.options import positive
from relive.envs.particle.bodies import Agent, Landmark, Scenario
from relive.envs.particle.simple_tag import outside
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple_world_comm"]


def simple_world_comm(
    num_good: int = 2, num_adversaries: int = 4, num_obstacles: int = 1, num_food: int = 2, num_forests: int = 2
) -> Scenario:
    """Predators chase prey that look for food; their leader sees into the forests and communicates.

    Args:
        num_good: Prey.
        num_adversaries: Predators, the leader among them.
    """
    positive("num_good", num_good)
    hunters = positive("num_adversaries", num_adversaries, least=2)
    positive("num_obstacles", num_obstacles, least=0)
    positive("num_food", num_food)
    positive("num_forests", num_forests, least=0)
    total = hunters + num_good
    food = slice(total + num_obstacles, total + num_obstacles + num_food)
    forests = slice(food.stop, food.stop + num_forests)

    def inside(world: World) -> Array:
        """Which agents are in which forests, ``[A, forests, E]``."""
        return world.distance[:, forests] < world.touching[:total, forests, None]

    def see(world: World, me: int) -> list[Array]:
        hidden = inside(world)
        mine = hidden[me]
        together = (hidden & mine).any(axis=1)
        visible = together | ~(mine.any(axis=0) | hidden.any(axis=1))
        if me == 0:
            visible[:] = True
        others = world.others(me)
        parts = [world.vel[me], world.pos[me], world.to_landmarks(me)]
        parts += [world.offset[me, other] * visible[other] for other in others]
        speeds = [world.vel[other] * visible[other] for other in others if other >= hunters]
        flags = np.where(mine, 1.0, -1.0)
        return [*parts, *speeds, flags, world.said[0]] if me < hunters else [*parts, flags, *speeds]

    def caught(world: World) -> Array:
        return world.distance[:hunters, hunters:total] < world.touching[0, hunters]

    def reward(world: World) -> Array:
        hits = caught(world)
        rewards = np.empty((total, world.num_envs))
        rewards[:hunters] = 5.0 * hits.sum(axis=(0, 1)) - 0.1 * world.distance[:hunters, hunters:total].min(axis=1)
        to_food = world.distance[hunters:total, food]
        eaten = (to_food < world.touching[hunters, food.start]).sum(axis=1)
        price = 5.0 * hits.sum(axis=0) + 2.0 * outside(world.pos[hunters:total]) + 0.05 * to_food.min(axis=1)
        rewards[hunters:] = 2.0 * eaten - price
        return rewards

    def hunter(name: str, *, leads: bool = False) -> Agent:
        colour = (163, 24, 24) if leads else (224, 49, 49)
        return Agent(name, size=0.075, accel=3.0, max_speed=1.0, speaks=leads, colour=colour)

    return Scenario(
        name="simple_world_comm",
        agents=(
            hunter("leadadversary_0", leads=True),
            *(hunter(f"adversary_{i}") for i in range(hunters - 1)),
            *(Agent(f"agent_{i}", size=0.045, accel=4.0, max_speed=1.3, colour=(47, 158, 68)) for i in range(num_good)),
        ),
        landmarks=(
            *(Landmark(f"landmark {i}", size=0.2, spread=0.9, collides=True) for i in range(num_obstacles)),
            *(Landmark(f"food {i}", size=0.03, spread=0.9, colour=(28, 126, 214)) for i in range(num_food)),
            *(Landmark(f"forest {i}", size=0.3, spread=0.9, colour=(178, 242, 187)) for i in range(num_forests)),
        ),
        words=4,
        see=see,
        reward=reward,
        report=lambda world: {"caught": caught(world).sum(axis=(0, 1))},
    )
