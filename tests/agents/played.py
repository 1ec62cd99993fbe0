"""A memory of some play, and the learner whose actor played."""

from __future__ import annotations

from typing import Any


def played(config: Any, env: Any, steps: int, taken: int | None = None) -> tuple[Any, Any]:
    """Of an off-policy algorithm, in parallel environments.

    Args:
        taken: Steps that the actor thinks were taken before, where exploration depends on it.
    """
    memory, learner = config.memory(env, lanes=env.num_envs, seed=0), config.learner(env, seed=1)
    actor, obs = learner.actor(env.num_envs, explore=True, seed=2), env.reset(seed=0)
    for _ in range(steps):
        action, extras = actor.act(obs) if taken is None else actor.act(obs, taken)
        step = env.step(action)
        memory.append(**step.row, **extras)
        actor.reset(step.ended)
        obs = step.obs
    return memory, learner
