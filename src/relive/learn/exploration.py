"""Exploration: action noise and epsilon-greedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, final

import torch
from torch import Tensor

from relive.errors import OptionError

__all__ = ["GaussianNoise", "Noise", "OrnsteinUhlenbeck", "epsilon_greedy", "greedy"]


class Noise(Protocol):
    """Noise added to normalised actions."""

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """Noise in the shape of actions ``[A, E, width]``."""

    def reset(self, mask: Tensor) -> None:
        """Reset the noise where ``mask [E]`` is True: at episode ends."""

    def state_dict(self) -> dict[str, Tensor]:
        """The noise process's state, apart from the generator's."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state."""


@final
class GaussianNoise:
    """Independent Gaussian noise."""

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """Gaussian noise with standard deviation ``scale``."""
        return torch.empty_like(like).normal_(generator=generator).mul_(scale)

    def reset(self, mask: Tensor) -> None:
        """Nothing: it has no state."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing: it has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing: it has no state."""


@final
class OrnsteinUhlenbeck:
    """Mean-reverting noise: x + theta (0 - x) dt + scale sqrt(dt) N(0, 1) (Uhlenbeck and Ornstein 1930)."""

    def __init__(self, theta: float = 0.15, dt: float = 1.0) -> None:
        if theta <= 0 or dt <= 0:
            raise OptionError("theta and dt", "be above 0", f"{theta} and {dt}")
        self._theta, self._dt = theta, dt
        self._walk: Tensor | None = None

    def __call__(self, like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
        """The process after one more step."""
        if self._walk is None or self._walk.shape != like.shape:
            self._walk = torch.zeros_like(like)
        step = torch.empty_like(like).normal_(generator=generator)
        self._walk = self._walk * (1 - self._theta * self._dt) + step * (scale * self._dt**0.5)
        return self._walk

    def reset(self, mask: Tensor) -> None:
        """Return to zero."""
        if self._walk is not None:
            self._walk[:, mask] = 0.0

    def state_dict(self) -> dict[str, Tensor]:
        """The current value of the process."""
        return {} if self._walk is None else {"walk": self._walk.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore it."""
        self._walk = state["walk"].clone() if "walk" in state else None


def greedy(q: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """The argmax of Q over available actions, ``[...]``."""
    return (q if action_mask is None else q.masked_fill(~action_mask, -torch.inf)).argmax(dim=-1)


def epsilon_greedy(
    q: Tensor, epsilon: float, generator: torch.Generator | None, action_mask: Tensor | None = None
) -> Tensor:
    """The greedy action, or with probability ``epsilon`` a random available one."""
    chance = torch.rand(q.shape, generator=generator, device=q.device)
    explore = torch.rand(q.shape[:-1], generator=generator, device=q.device) < epsilon
    return torch.where(explore, greedy(chance, action_mask), greedy(q, action_mask))
