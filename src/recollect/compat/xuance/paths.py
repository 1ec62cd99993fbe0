"""Returns and advantages of one environment's steps since its last ``finish_path``."""

from __future__ import annotations

from typing import Any

import numpy as np

from recollect.compat.checks import plain
from recollect.compat.xuance.slots import Array
from recollect.errors import OptionError, Problem, StepError
from recollect.memory import targets

__all__ = ["advantages", "check_finished", "last_values", "of_agents", "td_lambda_returns"]


def advantages(
    rewards: Array, values: Array, terminated: Array, *, use_gae: bool, gamma: float, lam: float
) -> tuple[Array, Array]:
    """Returns and advantages ``[T, N]``.

    Args:
        values: Of what was seen before every step and after the last, ``[T + 1, N]``.
        use_gae: Whether to estimate by GAE; otherwise returns are discounted sums, and advantages what they are above
            the values.
    """
    if use_gae:
        advantage, returns = targets.gae(rewards, values, terminated=terminated, gamma=gamma, lam=lam)
        return returns, advantage
    returns = targets.discounted_returns(rewards, values[1:], terminated=terminated, gamma=gamma)
    return returns, returns - values[:-1]


def td_lambda_returns(rewards: Array, values: Array, terminated: Array, *, gamma: float, lam: float) -> Array:
    """TD(lambda) returns ``[T, N]``, with arguments as of ``advantages``."""
    return targets.td_lambda(rewards, values[1:], terminated=terminated, gamma=gamma, lam=lam)


def check_finished(cut_off: Array) -> None:
    """Refuse a step after a truncated one whose returns nobody has worked out."""
    if cut_off.any():
        rule = f"be called for environment {int(cut_off.argmax())} after its truncated step"
        raise StepError((Problem("finish_path", rule, "another step", "Pass it the value of what was seen last."),))


def last_values(name: str, value: Any, n_agents: int) -> Array:
    """Values of what was seen last, given as one for each agent or one for all."""
    last = np.asarray(plain(value), np.float32)
    if last.size not in (1, n_agents):
        rule = f"be one number or one for each of {n_agents} agents" if n_agents > 1 else "be one number"
        raise OptionError(name, rule, list(last.shape))
    return last.reshape(-1)


def of_agents(
    rewards: Array, values: Array, last: Array, terminated: Array, n_agents: int, normalizer: Any
) -> tuple[Array, Array, Array]:
    """Rewards, values ``[T + 1, agents]`` and terminals of a path ``[T, ...]``, as ``advantages`` takes them.

    Args:
        normalizer: What the values were normalised by, with a method ``denormalize``; or None.
    """
    steps = len(rewards)
    real = np.empty((steps + 1, n_agents, 1), np.float32)
    real[:-1, :, 0], real[-1, :, 0] = values.reshape(steps, n_agents), last
    if normalizer is not None:
        real = np.asarray(plain(normalizer.denormalize(real)), np.float32)

    def spread(array: Array) -> Array:
        flat = array.reshape(steps, -1)
        return flat if flat.shape[1] == n_agents else np.broadcast_to(flat, (steps, n_agents))

    return spread(rewards), real.reshape(steps + 1, n_agents), spread(terminated)
