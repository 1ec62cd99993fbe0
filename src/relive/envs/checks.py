"""Checks of what environments return, with errors that name the environment, agent, field and step."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from relive.envs.interface import AgentGroup, Env
from relive.errors import EnvError, ReliveError
from relive.types import Array, Arrays

__all__ = ["check_finite", "check_shape", "guarded", "own_traceback"]

_R = TypeVar("_R")
_MOST_TEXT = 4000


def check_finite(env: Env, values: Arrays, step: int) -> None:
    """Refuse NaN and infinity in observations and rewards, ``[E, ...]`` each.

    Args:
        step: Steps so far, for the message.
    """
    for key, array in values.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        place = tuple(int(n) for n in np.argwhere(~np.isfinite(array))[0])
        number = int(values["lanes"][place[0]]) if "lanes" in values else place[0]
        who = _agent(env.groups, key, place)
        remedy = "Mend the environment, or wrap it so that it gives finite numbers."
        name = f"{key} of {who}environment {number} of {env.name} after {step} steps"
        raise EnvError(name, "be finite", array[place], remedy)


def _agent(groups: Sequence[AgentGroup], key: str, place: tuple[int, ...]) -> str:
    for group in groups:
        part = key.removeprefix(f"{group.name}/") if group.name else key
        belongs = key.startswith(f"{group.name}/") if group.name else True
        own = part.removeprefix("final_").split("/")[0] in ("obs", "action", "reward", "avail_actions", "agent_mask")
        if belongs and own and len(place) > 1:
            return f"{group.agents[place[1]]} in "
    return ""


def check_shape(name: str, value: Array, shape: tuple[int, ...]) -> Array:
    """The value, if it has the shape of its space."""
    if value.shape != shape:
        remedy = "Its space says so; mend the one or the other."
        raise EnvError(name, f"have shape {list(shape)}", list(value.shape), remedy)
    return value


def guarded(name: str, what: str, call: Callable[[], _R]) -> _R:
    """The result of a call to an environment; an exception becomes an EnvError with the environment's traceback."""
    try:
        return call()
    except ReliveError:
        raise
    except Exception as error:
        raise EnvError(f"{what} of {name}", "not raise", own_traceback()) from error


def own_traceback() -> str:
    """The traceback of the exception being handled, without the adapter's own frames."""
    text = traceback.format_exc(limit=-3).strip()
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} ..."
