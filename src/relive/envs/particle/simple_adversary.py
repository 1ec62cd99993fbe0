"""Physical deception: agents know which landmark is the goal; an adversary watches them to find out."""

from __future__ import annotations

import numpy as np

from relive.envs.options import positive
from relive.envs.particle.bodies import Agent, Colour, Landmark, Scenario
from relive.envs.particle.world import World
from relive.types import Array

__all__ = ["simple_adversary"]

_ON_GOAL = 0.4


def simple_adversary(
    N: int = 2,  # noqa: N803  (mpe2's name)
    num_agent_neighbors: int | None = None,
    num_landmark_neighbors: int | None = None,
    squared: bool = False,
) -> Scenario:
    """Physical deception: agents know which landmark is the goal; an adversary watches them to find out.

    Args:
        N: Number of good agents and of landmarks.
        num_agent_neighbors: How many others an agent sees, the nearest; None: all.
        num_landmark_neighbors: How many landmarks an agent sees, the nearest; None: all.
        squared: The adversary loses the square of its distance, as in OpenAI's first world, not the distance, as in
            mpe2. An adversary that does not know the goal is then best off between the landmarks.
    """
    positive("N", N)
    peers = positive("num_agent_neighbors", num_agent_neighbors, none=True)
    marks = positive("num_landmark_neighbors", num_landmark_neighbors, none=True)
    first = 1 + N  # the first landmark

    def see(world: World, me: int) -> list[Array]:
        parts = []
        if me > 0:
            goal = first + world.drawn["goal"]
            parts.append(world.offset[me, goal, :, np.arange(world.num_envs)].T)
        if marks is None:
            parts.append(world.to_landmarks(me))
        else:
            parts.append(world.to_nearest(me, world.nearest(me, range(first, first + N), marks), marks))
        if peers is None:
            return [*parts, *world.to_agents(me)]
        return [*parts, world.to_nearest(me, world.nearest(me, world.others(me), peers), peers)]

    def to_goal(world: World) -> Array:
        return np.take_along_axis(world.distance, (first + world.drawn["goal"])[None, None], axis=1)[:, 0]

    def reward(world: World) -> Array:
        away = to_goal(world)
        rewards = np.empty_like(away)
        rewards[0] = -(away[0] ** 2) if squared else -away[0]
        rewards[1:] = away[0] - away[1:].min(axis=0)
        return rewards

    def report(world: World) -> dict[str, Array]:
        away = to_goal(world)
        return {"agent_on_goal": away[1:].min(axis=0) < _ON_GOAL, "adversary_on_goal": away[0] < _ON_GOAL}

    def tint(world: World, index: int) -> dict[int, Colour]:
        return {first + int(world.drawn["goal"][index]): (47, 158, 68)}

    adversary = Agent("adversary_0", size=0.15, collides=False, colour=(224, 49, 49))
    return Scenario(
        name="simple_adversary",
        agents=(adversary, *(Agent(f"agent_{i}", size=0.15, collides=False) for i in range(N))),
        landmarks=tuple(Landmark(f"landmark {i}", size=0.08) for i in range(N)),
        draws={"goal": N},
        see=see,
        reward=reward,
        report=report,
        tint=tint,
    )
