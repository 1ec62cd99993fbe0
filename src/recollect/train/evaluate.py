"""Whole episodes without exploration: returns, and videos."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from recollect.agents.interface import Learner
from recollect.envs import Env, make
from recollect.envs.checks import check_finite, guarded
from recollect.envs.interface import Step

__all__ = ["evaluate", "record_video", "reset_mask"]


def reset_mask(step: Step) -> Any:
    """Where an episode ended, or where a step only began the next one, ``[E]``."""
    lanes = step.row.get("lanes")
    if lanes is None:
        return step.ended
    rows = np.ones(len(step.ended), bool)
    rows[lanes] = step.ended[lanes]
    return rows


_OWN = ("step", "updates", "length")


def evaluate(
    learner: Learner, env: Env, seed: int, longest: int, going_on: Callable[[], bool] = lambda: True
) -> dict[str, float] | None:
    """The mean over the first episode of every environment: each group's return (an agent's share of it), the length,
    and what the environment reports about episodes that end, as far as it does.

    Args:
        longest: Steps after which episodes that go on are taken as they are.
        going_on: Asked at every step; where it says no, nothing is returned.
    """
    actor = learner.actor(env.num_envs, explore=False)
    seen = env.reset(seed=seed)
    going = np.ones(env.num_envs, bool)
    names = {"return": "reward"} if env.shared_reward else {g.key("return"): g.key("reward") for g in env.groups}
    returns = {name: np.zeros(env.num_envs) for name in names}
    lengths = np.zeros(env.num_envs)
    reports: dict[str, list[Any]] = {}
    for _ in range(longest):
        if not going.any():
            break
        if not going_on():
            return None
        step = guarded(env.name, "step", partial(env.step, actor.act(seen)[0]))
        check_finite(env, step.row, int(lengths.max()))
        actor.reset(reset_mask(step))
        rows = step.row.get("lanes", slice(None))
        for name, key in names.items():
            reward = np.zeros(env.num_envs)
            values = step.row[key]
            reward[rows] = values if values.ndim == 1 else values.mean(axis=1)
            returns[name] += reward * going
        lengths += going
        fresh = step.ended & going
        if fresh.any():
            for name, values in step.info.items():
                if np.ndim(values) == 1 and len(values) == env.num_envs:
                    reports.setdefault(name, []).append(np.asarray(values)[fresh])
        going &= ~step.ended
        seen = step.seen
    if going.any() and env.limit is None:
        many = f"{int(going.sum())} of {env.num_envs} episodes of {env.name} did not end within {longest:,} steps"
        warnings.warn(f"{many} and are taken as they are (--eval-max-steps)", stacklevel=2)
    found = {name: float(value.mean()) for name, value in returns.items()}
    found["length"] = float(lengths.mean())
    for name, parts in reports.items():
        values = np.concatenate(parts).astype(np.float64)
        if not np.isnan(values).all():
            found[f"info/{name}" if name in found or name in _OWN else name] = float(np.nanmean(values))
    return found


def record_video(learner: Learner, name: str, options: Mapping[str, Any], seed: int, longest: int = 500) -> list[Any]:
    """Pictures of an episode of an environment, from its beginning to how it ends, where the environment shows that."""
    options = {key: value for key, value in options.items() if key != "pool"}
    if name.startswith(("gymnasium:", "pettingzoo:")):
        options.setdefault("render_mode", "rgb_array")
    env = make(name, num_envs=1, **options)
    try:
        actor = learner.actor(1, explore=False)
        seen = env.reset(seed=seed)
        pictures = [env.render(0)]
        if hasattr(env, "at_end"):
            env.at_end = lambda index: pictures.append(env.render(index))
        for _ in range(longest):
            step = env.step(actor.act(seen)[0])
            if step.ended[0]:
                break
            pictures.append(env.render(0))
            seen = step.seen
        return pictures
    finally:
        env.close()
