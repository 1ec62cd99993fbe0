"""CartPole of which only positions are seen: without a memory of what was, it cannot be balanced."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TransformObservation

from relive import envs

__all__ = ["positions_only"]


def positions_only(**options: Any) -> gymnasium.Env[Any, Any]:
    """CartPole-v1 without velocities."""
    env = gymnasium.make("CartPole-v1", **options)
    space: Any = env.observation_space
    seen = gymnasium.spaces.Box(space.low[[0, 2]], space.high[[0, 2]], dtype=np.float32)
    return TransformObservation(env, lambda obs: obs[[0, 2]], seen)


def _one(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    return positions_only(render_mode=render_mode)


envs.register("cartpole_positions", _one, "CartPole-v1 without velocities.")
