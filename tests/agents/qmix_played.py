"""A memory of some play, and a learner of QMIX."""

from __future__ import annotations

from typing import Any

from relive import envs
from relive.agents.qmix import QMIX, QMIXConfig

SMALL: dict[str, Any] = {
    "hidden": 9,
    "mixing_units": 5,
    "hypernet_units": 7,
    "batch_size": 4,
    "buffer_size": 60,
    "lr": 1e-2,
}


def played(name: str, config: QMIXConfig, steps: int = 60, num_envs: int = 4, **options: Any) -> tuple[Any, Any, QMIX]:
    """An environment, a memory of some play by chance, and a learner."""
    env = envs.make(name, num_envs=num_envs, **options)
    memory = config.memory(env, lanes=env.num_envs, seed=0)
    learner = config.learner(env, seed=1)
    actor, obs = learner.actor(num_envs, explore=True), env.reset(seed=0)
    for _ in range(steps):
        step = env.step(actor.act(obs, 0)[0])
        memory.append(**step.row)
        actor.reset(step.ended)
        obs = step.obs
    return env, memory, learner
