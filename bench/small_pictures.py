"""MinAtar's Breakout (Young & Tian 2019): pictures of ten by ten, where one action in ten is the one before instead."""

from __future__ import annotations

from typing import Any

import gymnasium
from minatar.gym import BaseEnv

from relive import envs

__all__ = ["breakout"]


def breakout(render_mode: str | None = None, sticky_action_prob: float = 0.1) -> gymnasium.Env[Any, Any]:
    """Of the six actions those three that do something: ``MinAtar/Breakout-v1`` without Gymnasium's wrappers."""
    return BaseEnv(
        "breakout", render_mode=render_mode, use_minimal_action_set=True, sticky_action_prob=sticky_action_prob
    )


envs.register("minatar_breakout", breakout, "MinAtar's Breakout: bricks, a ball and a paddle on ten by ten pixels.")
