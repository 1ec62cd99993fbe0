"""mpe2's environments beside one of our worlds: their state copied into ours."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from relive.envs import particle

MODULES = {name: f"mpe2.{name}_v{4 if name == 'simple_speaker_listener' else 3}" for name in particle.SCENARIOS}


def peers(name: str, count: int, *, max_cycles: int = 25, continuous: bool, **options: Any) -> list[Any]:
    """Environments of mpe2, begun."""
    module = importlib.import_module(MODULES[name])
    made = [module.parallel_env(max_cycles=max_cycles, continuous_actions=continuous, **options) for _ in range(count)]
    for seed, env in enumerate(made):
        env.reset(seed=seed)
    return made


def copy_state(world: particle.World, envs: list[Any]) -> None:
    """Put the bodies and goals of mpe2's environments into ours."""
    for e, env in enumerate(envs):
        theirs = env.unwrapped.world
        for i, entity in enumerate(theirs.entities):
            world.pos[i, :, e] = entity.state.p_pos
        for i, agent in enumerate(theirs.agents):
            world.vel[i, :, e] = agent.state.p_vel
            if world.said.shape[1]:
                world.said[i, :, e] = agent.state.c
        world.time[e] = env.unwrapped.steps
        for name, value in _drawn(world.name, theirs).items():
            world.drawn[name][e] = value


def _drawn(name: str, theirs: Any) -> dict[str, int]:
    def place(landmark: Any) -> int:
        return next(i for i, mark in enumerate(theirs.landmarks) if mark is landmark)

    agents = theirs.agents
    if name in ("simple_adversary", "simple_push"):
        return {"goal": place(agents[0].goal_a)}
    if name == "simple_crypto":
        return {"goal": place(agents[0].goal_a), "key": int(np.argmax(agents[2].key))}
    if name == "simple_reference":
        return {"goal_of_1": place(agents[0].goal_b), "goal_of_0": place(agents[1].goal_b)}
    if name == "simple_speaker_listener":
        return {"goal": place(agents[0].goal_b)}
    return {}
