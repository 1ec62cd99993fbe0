"""Small settings of QMIX, and some play with them."""

from __future__ import annotations

from typing import Any

from played import played

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


def filled(name: str, config: QMIXConfig, steps: int = 60, num_envs: int = 4, **options: Any) -> tuple[Any, Any, QMIX]:
    """An environment, a memory of some play by chance, and a learner."""
    env = envs.make(name, num_envs=num_envs, **options)
    return env, *played(config, env, steps, 0)
