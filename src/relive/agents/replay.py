"""Replay memories of off-policy algorithms."""

from __future__ import annotations

from typing import Any

from relive.memory import Memory, NStep, Prioritized, Storage, Uniform, Window
from relive.memory.samplers import LinearSchedule
from relive.schema import Schema

__all__ = ["replay_memory", "sampler_of"]


def replay_memory(
    config: Any, schema: Schema, *, lanes: int, seed: int, storage: Storage | None, window: Window | None = None
) -> Memory:
    """A memory of n-step transitions, uniform or prioritised, whose frames are stacked on reading.

    Args:
        config: ``ReplaySettings``, and ``PERSettings`` or a ``frame_stack`` where an algorithm has them.
        window: Another window than n steps.
    """
    frames = getattr(config, "frame_stack", 1)
    rows = max(config.capacity // lanes, 2 * (config.n_step + frames) + 2)
    window = NStep(config.n_step, gamma=config.gamma) if window is None else window
    parts: dict[str, Any] = {"sampler": sampler_of(config), "window": window}
    if frames > 1:
        parts["stack"] = {"obs": frames}
    return Memory(schema, capacity=rows * lanes, lanes=lanes, seed=seed, storage=storage, **parts)


def sampler_of(config: Any) -> Uniform | Prioritized:
    """Uniform, or prioritised by ``per_alpha``, with ``per_beta`` annealed to 1 where an algorithm has it."""
    if not config.per_alpha:
        return Uniform()
    if not hasattr(config, "per_beta"):
        return Prioritized(alpha=config.per_alpha)
    batches = int(config.per_beta_steps / config.update_every)
    beta = LinearSchedule(config.per_beta, 1.0, steps=batches) if batches else config.per_beta
    return Prioritized(alpha=config.per_alpha, beta=beta)
