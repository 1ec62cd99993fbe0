"""Evaluation episodes: returns, and videos."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from relive.agents.interface import Learner
from relive.envs import Env
from relive.envs.checks import check_finite, guarded
from relive.envs.interface import HasFrameRate, HasLegend, Reports, ShowsEnds
from relive.envs.video import captioned
from relive.errors import OptionError
from relive.training.collect import reset_mask
from relive.training.metrics import reward_names
from relive.types import Actions, Array, Arrays

__all__ = ["Video", "draw_episode", "evaluate", "record_video"]


def evaluate(
    learner: Learner,
    env: Env,
    seed: int,
    longest: int,
    going_on: Callable[[], bool] = lambda: True,
    explore_at: int | None = None,
) -> dict[str, float] | None:
    """Means over the first episode of every environment: each group's return per agent, the length, and metrics that
    the environment reports.

    Args:
        longest: Steps after which unfinished episodes count as they are.
        going_on: Called at every step; if it returns False, the evaluation is abandoned and returns None.
        explore_at: Explore as after this many training steps; None: act without exploration.
    """
    actor = learner.actor(env.num_envs, explore=explore_at is not None, seed=seed)
    seen = env.reset(seed=seed)
    going = np.ones(env.num_envs, bool)
    names = reward_names(env)
    returns = {name: np.zeros(env.num_envs) for name in names}
    lengths = np.zeros(env.num_envs)
    reports: dict[str, list[Any]] = {}
    for _ in range(longest):
        if not going.any():
            break
        if not going_on():
            return None
        step = guarded(env.name, "step", partial(env.step, actor.act(seen, explore_at or 0)[0]))
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
        seen = step.obs
    if going.any() and env.max_episode_steps is None:
        many = f"{int(going.sum())} of {env.num_envs} episodes of {env.name} did not end within {longest:,} steps"
        warnings.warn(f"{many} and count as they are (--eval-max-steps)", stacklevel=2)
    found = {name: float(value.mean()) for name, value in returns.items()}
    found["length"] = float(lengths.mean())
    reported = env.report_names if isinstance(env, Reports) else ()
    for name, parts in reports.items():
        values = np.concatenate(parts).astype(np.float64)
        if not np.isnan(values).all():
            shown = name in reported and name not in found
            found[name if shown else f"info/{name}"] = float(np.nanmean(values))
    return found


class Video(NamedTuple):
    """An episode in pictures."""

    frames: list[Array]
    """RGB bytes ``[height, width, 3]``."""
    fps: float
    """Frames per second: the environment's own, or ten."""


def record_video(learner: Learner, env: Env, seed: int, longest: int = 500) -> Video:
    """A video of an episode, to its final state where the environment can render that.

    Captions have the step, the return so far, and a legend of who is who.

    Args:
        env: One environment that can be rendered; it is closed afterwards.
    """
    try:
        actor = learner.actor(1, explore=False)
        return draw_episode(env, env.reset(seed=seed), lambda obs, _: actor.act(obs)[0], longest)
    finally:
        env.close()


def draw_episode(env: Env, obs: Arrays, act: Callable[[Arrays, int], Actions], longest: int) -> Video:
    """A video of an environment from its current state to the end of the episode.

    Args:
        act: The policy: from observation and step to action.
    """
    pictures = [_drawn(env)]
    returns = dict.fromkeys(reward_names(env), 0.0)
    legend = env.legend(0) if isinstance(env, HasLegend) else []
    captions = [_caption(0, env.max_episode_steps, returns)]
    if isinstance(env, ShowsEnds):
        env.at_end = lambda _: pictures.append(_drawn(env))
    for number in range(1, longest + 1):
        step = env.step(act(obs, number - 1))
        for label, key in reward_names(env).items():
            returns[label] += float(np.mean(step.row[key])) if len(step.row[key]) else 0.0
        if not step.ended[0]:
            pictures.append(_drawn(env))
        captions.append(_caption(number, env.max_episode_steps, returns))
        if step.ended[0]:
            break
        obs = step.obs
    frames = [captioned(picture, text, legend) for picture, text in zip(pictures, captions, strict=False)]
    return Video(frames, env.render_fps if isinstance(env, HasFrameRate) else 10.0)


_REMEDY = "Its render must return an image, [height, width, 3] bytes."


def _drawn(env: Env) -> Any:
    try:
        picture = env.render(0)
    except (NotImplementedError, AttributeError, OptionError, ImportError) as error:
        raise OptionError("environment", "be one that can be drawn", repr(env.name), str(error) or _REMEDY) from error
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise OptionError("environment", "be one that can be drawn", repr(env.name), _REMEDY)
    return picture


def _caption(step: int, limit: int | None, returns: Mapping[str, float]) -> str:
    shown = "   ".join(f"{name.rpartition('/')[0]} {value:.1f}".strip() for name, value in returns.items())
    return f"step {step}{f' of {limit}' if limit else ''}   return{':' if len(returns) > 1 else ''} {shown}"
