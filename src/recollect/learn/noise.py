"""Noise that explores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, final

import torch
from torch import Tensor

from recollect.errors import OptionError

__all__ = ["Gaussian", "Noise", "OrnsteinUhlenbeck", "linear"]


class Noise(Protocol):
    """Numbers to add to the codes of actions."""

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """Noise in the shape of codes ``[A, E, width]``."""

    def restart(self, rows: Tensor) -> None:
        """Begin anew in environments whose episodes ended, ``[E]`` booleans."""

    def state(self) -> dict[str, Tensor]:
        """What the next numbers depend on besides the generator."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


@final
class Gaussian:
    """Independent normal numbers."""

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """Normal numbers with a standard deviation of ``scale``."""
        return torch.empty_like(like).normal_(generator=generator).mul_(scale)

    def restart(self, rows: Tensor) -> None:
        """Nothing is carried over."""

    def state(self) -> dict[str, Tensor]:
        """Nothing is kept."""
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Nothing is kept."""


@final
class OrnsteinUhlenbeck:
    """A walk that is drawn back to zero: x + theta (0 - x) dt + scale sqrt(dt) N (Uhlenbeck and Ornstein 1930)."""

    def __init__(self, theta: float = 0.15, dt: float = 1.0) -> None:
        if theta <= 0 or dt <= 0:
            raise OptionError("theta and dt", "be above 0", f"{theta} and {dt}")
        self._theta, self._dt = theta, dt
        self._walk: Tensor | None = None

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """The walk after one more step."""
        if self._walk is None or self._walk.shape != like.shape:
            self._walk = torch.zeros_like(like)
        step = torch.empty_like(like).normal_(generator=generator)
        self._walk = self._walk * (1 - self._theta * self._dt) + step * (scale * self._dt**0.5)
        return self._walk

    def restart(self, rows: Tensor) -> None:
        """Begin at zero again."""
        if self._walk is not None:
            self._walk[:, rows] = 0.0

    def state(self) -> dict[str, Tensor]:
        """Where the walk is."""
        return {} if self._walk is None else {"walk": self._walk.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self._walk = state["walk"].clone() if "walk" in state else None


def linear(start: float, end: float, over: float, step: float) -> float:
    """A schedule: from ``start`` to ``end`` over some steps, then ``end``.

    >>> linear(1.0, 0.0, 100, 25)
    0.75
    """
    return end if step >= over else start + (end - start) * step / over
