"""Return and advantage targets over arrays ``[T, N]`` (or ``[T, N, ...]``), in float32 or float64.

Everywhere ``reward[t]`` is the reward of step t and ``next_value[t]`` the value of its next observation, which at a
truncated step is the final observation, not the next episode's first. Where values are given as ``[T + 1, N]``,
``next_value`` may be left out as long as no step of another episode follows a truncated one. Flags and ``mask`` may
have fewer trailing axes than values: ``[T, N]`` for values ``[T, N, A]``. Rows where ``mask`` is False come out as zero
and break the recursion.
"""

from __future__ import annotations

import math

import numpy as np

from relive import _core
from relive.errors import OptionError
from relive.memory.checks import host, is_number, real
from relive.messages import brief
from relive.types import Array, ArrayLike

__all__ = ["discounted_returns", "gae", "n_step_returns", "normalize", "retrace", "td_lambda", "vtrace"]


def gae(
    reward: ArrayLike,
    value: ArrayLike,
    next_value: ArrayLike | None = None,
    *,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    gamma: float = 0.99,
    lam: float = 0.95,
    mask: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Generalised advantage estimates and the returns ``advantage + value`` (Schulman et al., 2016).

    >>> advantage, returns = gae([[1.0], [1.0]], [[0.5], [0.5], [0.0]], terminated=[[False], [True]], gamma=1, lam=1)
    >>> advantage.ravel().tolist(), returns.ravel().tolist()
    ([1.5, 0.5], [2.0, 1.0])
    """
    _check_unit(gamma=gamma, lam=lam)
    block = _Block(reward, terminated, truncated, mask)
    now, after = block.values(value, next_value)
    advantage, returns = _core.gae(block.reward, now, after, *block.flags, gamma, lam)
    return block.shaped(advantage), block.shaped(returns)


def discounted_returns(
    reward: ArrayLike,
    next_value: ArrayLike | None = None,
    *,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    gamma: float = 0.99,
    mask: ArrayLike | None = None,
) -> Array:
    """Discounted returns to the episode's end; truncated ones are bootstrapped from ``next_value`` (default 0).

    >>> discounted_returns([[1.0], [1.0]], terminated=[[False], [True]], gamma=0.5).ravel().tolist()
    [1.5, 1.0]
    """
    _check_unit(gamma=gamma)
    block = _Block(reward, terminated, truncated, mask)
    after = None if next_value is None else block.like("next_value", next_value)
    return block.shaped(_core.td_lambda(block.reward, after, *block.flags, gamma, 1.0))


def td_lambda(
    reward: ArrayLike,
    next_value: ArrayLike,
    *,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    gamma: float = 0.99,
    lam: float = 0.95,
    mask: ArrayLike | None = None,
) -> Array:
    """TD(lambda) returns: G = r + gamma ((1 - lambda) next_value + lambda G'), with next_value alone at truncations.

    >>> td_lambda([[1.0], [1.0]], [[4.0], [9.0]], terminated=[[False], [True]], gamma=0.5, lam=0.5).ravel().tolist()
    [2.25, 1.0]
    """
    _check_unit(gamma=gamma, lam=lam)
    block = _Block(reward, terminated, truncated, mask)
    return block.shaped(_core.td_lambda(block.reward, block.like("next_value", next_value), *block.flags, gamma, lam))


def n_step_returns(
    reward: ArrayLike,
    next_value: ArrayLike,
    *,
    n: int,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    gamma: float = 0.99,
    mask: ArrayLike | None = None,
) -> Array:
    """n-step returns: up to ``n`` discounted rewards and the discounted value after them.

    >>> n_step_returns([[1.0], [1.0]], [[4.0], [8.0]], n=2, terminated=[[False], [False]], gamma=0.5).ravel().tolist()
    [3.5, 5.0]
    """
    _check_unit(gamma=gamma)
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise OptionError("n", "be a whole number of at least 1", repr(n))
    block = _Block(reward, terminated, truncated, mask)
    after = block.like("next_value", next_value)
    return block.shaped(_core.n_step(block.reward, after, *block.flags, int(min(n, len(block.reward) or 1)), gamma))


def vtrace(
    reward: ArrayLike,
    value: ArrayLike,
    next_value: ArrayLike | None = None,
    *,
    ratio: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    gamma: float = 0.99,
    lam: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    mask: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """V-trace targets and policy-gradient advantages (Espeholt et al., 2018).

    Args:
        ratio: Importance ratio pi(a|s) / mu(a|s) of target policy to behaviour policy.
    """
    _check_unit(gamma=gamma, lam=lam)
    for name, bound in (("rho_bar", rho_bar), ("c_bar", c_bar)):
        if not is_number(bound) or not bound >= 0:
            raise OptionError(name, "be at least 0", brief(bound))
    block = _Block(reward, terminated, truncated, mask)
    now, after = block.values(value, next_value)
    weights = block.like("ratio", ratio)
    target, advantage = _core.vtrace(block.reward, now, after, weights, *block.flags, gamma, lam, rho_bar, c_bar)
    return block.shaped(target), block.shaped(advantage)


def retrace(
    reward: ArrayLike,
    q: ArrayLike,
    next_value: ArrayLike,
    *,
    ratio: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    gamma: float = 0.99,
    lam: float = 1.0,
    mask: ArrayLike | None = None,
) -> Array:
    """Retrace(lambda) targets for Q of the chosen actions (Munos et al., 2016).

    Args:
        q: Q of the chosen action, ``[T, N]``.
        next_value: E_pi Q(s', .), the next state's expected Q under the target policy.
        ratio: Importance ratio pi(a|s) / mu(a|s) of target policy to behaviour policy.
    """
    _check_unit(gamma=gamma, lam=lam)
    block = _Block(reward, terminated, truncated, mask)
    now, after = block.like("q", q), block.like("next_value", next_value)
    return block.shaped(_core.retrace(block.reward, now, after, block.like("ratio", ratio), *block.flags, gamma, lam))


def normalize(values: ArrayLike, *, mask: ArrayLike | None = None, eps: float = 1e-8) -> Array:
    """(values - mean) / std over ``mask``; masked values come out as zero.

    >>> normalize([[1.0, 3.0, 99.0]], mask=[[True, True, False]]).ravel().tolist()
    [-1.0, 1.0, 0.0]
    """
    array, eps = _real("values", values), real("eps", eps, 0, 1e300)
    counted = np.ones(array.shape, bool) if mask is None else _flags("mask", mask, array.shape)
    if not counted.any():
        return np.zeros_like(array)
    chosen = array[counted].astype(np.float64)
    spread = max(float(chosen.std()), eps)
    result = np.where(counted, (array - chosen.mean()) / spread, 0.0)
    return np.asarray(result, dtype=array.dtype)


class _Block:
    """The arrays of one call, checked against the rewards and flattened to [T, N]."""

    def __init__(
        self, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike | None, mask: ArrayLike | None
    ) -> None:
        array = _real("reward", reward)
        if array.ndim < 2:
            raise OptionError("reward", "have shape [T, N, ...]", list(array.shape), "Add an axis: reward[:, None].")
        self._shape = array.shape
        self.reward = self._flat(array)
        self.flags = (
            self._flat(_flags("terminated", terminated, self._shape)),
            None if truncated is None else self._flat(_flags("truncated", truncated, self._shape)),
            None if mask is None else self._flat(_flags("mask", mask, self._shape)),
        )

    def like(self, name: str, values: ArrayLike) -> Array:
        """Values of the rewards' shape and dtype."""
        array = host(name, values)
        if array.shape != self._shape or array.dtype.kind not in "fiub":
            raise OptionError(name, f"be numbers of shape {list(self._shape)}", f"{array.dtype}{list(array.shape)}")
        return self._flat(np.asarray(array, dtype=self.reward.dtype))

    def values(self, value: ArrayLike, next_value: ArrayLike | None) -> tuple[Array, Array]:
        """Values and next values of each step."""
        if next_value is not None:
            return self.like("value", value), self.like("next_value", next_value)
        longer = (self._shape[0] + 1, *self._shape[1:])
        array = host("value", value)
        if array.shape != longer:
            raise OptionError(
                "value", f"have shape {list(longer)} without next_value", list(array.shape), "Pass next_value."
            )
        if self._cut_short():
            raise OptionError(
                "next_value",
                "be given where another episode follows a truncated step",
                "none",
                "The value after that step is not the next row's.",
            )
        return self.like("value", array[:-1]), self.like("next_value", array[1:])

    def _cut_short(self) -> bool:
        """Whether a truncated step is followed by a row of another episode."""
        terminated, truncated, mask = self.flags
        if truncated is None:
            return False
        cut = truncated[:-1] & ~terminated[:-1]
        return bool((cut if mask is None else cut & mask[1:]).any())

    def shaped(self, flat: Array) -> Array:
        """A result in the rewards' shape."""
        return flat.reshape(self._shape)

    def _flat(self, array: Array) -> Array:
        if not array.flags.carray:
            array = np.require(array, requirements=["C", "A"])
        return array.reshape(self._shape[0], math.prod(self._shape[1:]))


def _real(name: str, values: ArrayLike) -> Array:
    array = host(name, values)
    if array.dtype.kind not in "fiub":
        raise OptionError(name, "be numbers", array.dtype)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _flags(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = host(name, values)
    if array.dtype != np.bool_:
        raise OptionError(name, "be boolean", array.dtype, "Compare it: value > 0.")
    if array.shape == shape:
        return array
    if array.shape != shape[: array.ndim] or array.ndim < 2:
        raise OptionError(name, f"have shape {list(shape)} or its first axes", list(array.shape))
    return np.broadcast_to(array.reshape(array.shape + (1,) * (len(shape) - array.ndim)), shape)


def _check_unit(**numbers: float) -> None:
    for name, number in numbers.items():
        real(name, number, 0, 1)
