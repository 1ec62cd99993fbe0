"""Returns and advantages of one environment's steps since its last ``finish_path``."""

from __future__ import annotations

from typing import Any

import numpy as np

from recollect.compat.xuance.slots import Array
from recollect.memory import targets

__all__ = ["advantages", "denormalized", "td_lambda_returns"]


def advantages(
    rewards: Array, values: Array, last: Array, terminated: Array, *, use_gae: bool, gamma: float, lam: float
) -> tuple[Array, Array]:
    """Returns and advantages ``[T, N]``.

    Args:
        values: Of what was seen before every step, ``[T, N]``.
        last: Value of what was seen after the last step, ``[N]``.
        use_gae: Whether to estimate by GAE; otherwise returns are discounted sums, and advantages what they are above
            the values.
    """
    last = np.asarray(last, values.dtype).reshape(1, -1)
    if use_gae:
        advantage, returns = targets.gae(
            rewards, np.concatenate([values, last]), terminated=terminated, gamma=gamma, lam=lam
        )
        return returns, advantage
    after = np.zeros_like(rewards)
    after[-1:] = last
    returns = targets.discounted_returns(rewards, after, terminated=terminated, gamma=gamma)
    return returns, returns - values


def td_lambda_returns(
    rewards: Array, values: Array, last: Array, terminated: Array, *, gamma: float, lam: float
) -> Array:
    """TD(lambda) returns ``[T, N]``, with arguments as of ``advantages``."""
    after = np.concatenate([values[1:], np.asarray(last, values.dtype).reshape(1, -1)])
    return targets.td_lambda(rewards, after, terminated=terminated, gamma=gamma, lam=lam)


def denormalized(values: Array, normalizer: Any) -> Array:
    """Values as they were before a normaliser, if there is one."""
    if normalizer is None:
        return values
    real = normalizer.denormalize(values)
    return np.asarray(real.detach().cpu() if hasattr(real, "detach") else real, values.dtype).reshape(values.shape)
