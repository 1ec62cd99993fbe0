"""What algorithms of one agent have in common: their replay memory, and what they observe."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from recollect.envs.interface import Env
from recollect.errors import OptionError
from recollect.memory import Memory, NStep, Prioritized, Storage, Uniform
from recollect.memory.samplers import Linear

__all__ = ["observed_space", "replay_memory", "sampler_of"]


def replay_memory(config: Any, env: Env, *, lanes: int, seed: int, storage: Storage | None) -> Memory:
    """Transitions of n steps, uniform or prioritised, frames stacked as they are read.

    Args:
        config: Settings that have capacity, gamma, n_step, update_every, per_alpha, per_beta, per_beta_steps, and
            frame_stack if they have such.
    """
    frames = getattr(config, "frame_stack", 1)
    rows = max(config.capacity // lanes, 2 * (config.n_step + frames) + 2)
    window = NStep(config.n_step, gamma=config.gamma)
    parts: dict[str, Any] = {"sampler": sampler_of(config), "window": window, "storage": storage}
    if frames > 1:
        parts["stack"] = {"obs": frames}
    return Memory(env.schema, capacity=rows * lanes, lanes=lanes, seed=seed, **parts)


def sampler_of(config: Any) -> Uniform | Prioritized:
    """Uniform, or prioritised by per_alpha, with importance weights that rise from per_beta to 1."""
    if not config.per_alpha:
        return Uniform()
    batches = int(config.per_beta_steps / config.update_every)
    beta = Linear(config.per_beta, 1.0, steps=batches) if batches else config.per_beta
    return Prioritized(alpha=config.per_alpha, beta=beta)


def observed_space(space: Space[Any], frames: int) -> Space[Any]:
    """The space of observations, or of stacks of them, the newest last."""
    if frames == 1:
        return space
    if not isinstance(space, spaces.Box) or len(space.shape) > 2:
        rule = "be a Box of at most two axes (a vector, or a picture in grey) for a stack of frames"
        raise OptionError("observation space", rule, space)
    low, high = (np.repeat(bound[None], frames, axis=0) for bound in (space.low, space.high))
    return spaces.Box(low, high, dtype=space.dtype)
