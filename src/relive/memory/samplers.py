"""Samplers: which rows are drawn, with what probability. They hold settings; their state lives in the memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final, runtime_checkable

from relive import _core
from relive.errors import OptionError
from relive.memory.checks import is_number, real, whole
from relive.messages import brief

__all__ = [
    "LinearSchedule",
    "Prioritized",
    "Recent",
    "Sampler",
    "SamplerSpec",
    "Shuffled",
    "Uniform",
    "beta_of",
    "check_beta",
]

SamplerSpec: TypeAlias = tuple[str, float, float, bool]


@runtime_checkable
class Sampler(Protocol):
    """A rule for choosing rows."""

    def spec(self) -> SamplerSpec:
        """The rule as the core takes it: kind, alpha, eps, stratified."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Uniform:
    """Every row with the same probability.

    Args:
        replace: Whether a row may appear twice in one batch.
    """

    replace: bool = True

    def spec(self) -> SamplerSpec:
        """The rule as the core takes it."""
        return ("uniform" if self.replace else "distinct", 0.0, 0.0, False)


@final
@dataclass(frozen=True, slots=True)
class LinearSchedule:
    """A linear schedule from ``start`` to ``end`` over ``steps`` batches, constant afterwards.

    >>> beta = LinearSchedule(0.4, 1.0, steps=100)
    >>> beta(0), beta(50), beta(1000)
    (0.4, 0.7, 1.0)
    """

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if not is_number(value) or not abs(value) <= sys.float_info.max:
                raise OptionError(name, "be finite", brief(value))
        whole("steps", self.steps, 1, 2**63 - 1)

    def __call__(self, step: int) -> float:
        """The value after ``step`` batches."""
        done = min(max(step / self.steps, 0.0), 1.0)
        return self.start + (self.end - self.start) * done


@final
@dataclass(frozen=True, slots=True)
class Prioritized:
    """Rows in proportion to (|error| + eps)^alpha, as in prioritised experience replay (Schaul et al., 2016).

    New rows enter with the largest priority so far. Weights are (N P)^-beta over the largest such weight in memory.

    Args:
        alpha: Priority exponent; 0 is uniform.
        beta: Exponent of importance-sampling weights, 1 corrects fully; or a function of the number of batches drawn,
            such as ``LinearSchedule``.
        eps: Added to every error, so that no priority is 0.
        stratified: Draw one row from each of ``size`` equal strata of the total priority, rather than independently.
    """

    alpha: float = 0.6
    beta: float | Callable[[int], float] = 0.4
    eps: float = 1e-6
    stratified: bool = True

    def __post_init__(self) -> None:
        real("alpha", self.alpha, 0, 1)
        if real("eps", self.eps, 0, 1e100) == 0:
            raise OptionError("eps", "be above 0", self.eps, "It keeps every row within reach.")
        if not callable(self.beta):
            check_beta(self.beta)

    def spec(self) -> SamplerSpec:
        """The rule as the core takes it."""
        return ("prioritized", float(self.alpha), float(self.eps), bool(self.stratified))


@final
@dataclass(frozen=True, slots=True)
class Shuffled:
    """Every row exactly once an epoch, in random order; the last batch of an epoch may be smaller.

    Writing to the memory begins a new epoch. ``Memory.epoch`` iterates over one whatever the sampler.
    """

    def spec(self) -> SamplerSpec:
        """The rule as the core takes it."""
        return ("shuffled", 0.0, 0.0, False)


@final
@dataclass(frozen=True, slots=True)
class Recent:
    """The newest rows, equally many from every lane, oldest first.

    Only rows that the window can start at count: an open episode's newest step does not, before its next observation is
    known.
    """

    def spec(self) -> SamplerSpec:
        """The rule as the core takes it."""
        return ("recent", 0.0, 0.0, False)


def beta_of(sampler: Sampler, beta: float | None, reader: _core.Reader) -> float:
    """The exponent of the next batch's weights: the one given, or else the sampler's."""
    if beta is not None:
        return check_beta(beta)
    if isinstance(sampler, Prioritized):
        chosen = sampler.beta
        return check_beta(chosen(reader.counts()[3])) if callable(chosen) else chosen
    return 0.0


def check_beta(beta: float) -> float:
    """The exponent, if it is one."""
    if not is_number(beta) or not 0 <= beta <= sys.float_info.max:
        raise OptionError("beta", "be finite and at least 0", brief(beta))
    return float(beta)
