"""Noise that explores, and epsilon-greedy choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, final

import torch
from torch import Tensor

from recollect.errors import OptionError

__all__ = ["GaussianNoise", "Noise", "OrnsteinUhlenbeck", "epsilon_greedy", "greedy"]


class Noise(Protocol):
    """Numbers to add to normalised actions."""

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """Noise in the shape of actions ``[A, E, width]``."""

    def reset(self, mask: Tensor) -> None:
        """Begin anew in environments whose episodes ended, ``[E]`` booleans."""

    def state_dict(self) -> dict[str, Tensor]:
        """What the next numbers depend on besides the generator."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


@final
class GaussianNoise:
    """Independent normal numbers."""

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """Normal numbers with a standard deviation of ``scale``."""
        return torch.empty_like(like).normal_(generator=generator).mul_(scale)

    def reset(self, mask: Tensor) -> None:
        """Nothing is carried over."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing is kept."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
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

    def reset(self, mask: Tensor) -> None:
        """Begin at zero again."""
        if self._walk is not None:
            self._walk[:, mask] = 0.0

    def state_dict(self) -> dict[str, Tensor]:
        """Where the walk is."""
        return {} if self._walk is None else {"walk": self._walk.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self._walk = state["walk"].clone() if "walk" in state else None


def greedy(q: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """The action of the highest value among those that may be taken, ``[...]``."""
    return (q if action_mask is None else q.masked_fill(~action_mask, -torch.inf)).argmax(dim=-1)


def epsilon_greedy(
    q: Tensor, epsilon: float, generator: torch.Generator | None, action_mask: Tensor | None = None
) -> Tensor:
    """The best action, or with a chance of ``epsilon`` any that may be taken."""
    chance = torch.rand(q.shape, generator=generator, device=q.device)
    explore = torch.rand(q.shape[:-1], generator=generator, device=q.device) < epsilon
    return torch.where(explore, greedy(chance, action_mask), greedy(q, action_mask))
