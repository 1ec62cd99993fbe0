"""Action heads: from an action space to a policy's distribution, and between stored and normalised actions.

Critics read *normalised* actions: one-hot choices, and boxes from -1 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn.distributions import GumbelSoftmax, Simplex, TanhDeterministic
from relive.types import Array

__all__ = ["ActionHead", "BoxActions", "DiscreteActions", "SimplexActions", "action_head"]


class ActionHead(Protocol):
    """Maps an action space to network outputs, distributions and normalised actions."""

    outputs: int
    """Width of the policy network's output."""
    width: int
    """Width of a normalised action."""
    stochastic: bool
    """Whether the policy is stochastic and explores by sampling; else noise is added to its normalised actions."""

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Any:
        """The distribution of normalised actions given policy outputs ``[..., outputs]``."""

    def normalize(self, action: Tensor) -> Tensor:
        """Stored actions, normalised."""

    def env_action(self, action: Tensor) -> Tensor:
        """Normalised actions, converted to the environment's."""

    def to_env(self, action: Tensor) -> Array:
        """``env_action`` as an array of the environment's dtype."""


@final
class BoxActions(nn.Module):
    """Box actions: tanh of the outputs, scaled linearly to low and high."""

    center: Tensor
    radius: Tensor

    def __init__(self, space: spaces.Box) -> None:
        super().__init__()
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise OptionError("action space", "have finite bounds", space, "Wrap the environment to scale its actions.")
        if (space.high <= space.low).any():
            raise OptionError("action space", "have a high above its low everywhere", space)
        self.stochastic = False
        self.space = space
        self.outputs = self.width = int(np.prod(space.shape, dtype=int))
        low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
        self.register_buffer("center", torch.as_tensor((high + low) / 2, dtype=torch.float32), persistent=False)
        self.register_buffer("radius", torch.as_tensor((high - low) / 2, dtype=torch.float32), persistent=False)

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> TanhDeterministic:  # noqa: ARG002
        """Tanh of the outputs."""
        return TanhDeterministic(outputs)

    def normalize(self, action: Tensor) -> Tensor:
        """Actions scaled from [low, high] to [-1, 1]."""
        flat = action.reshape(*action.shape[: action.dim() - len(self.space.shape)], self.width)
        return (flat.to(torch.float32) - self.center) / self.radius

    def env_action(self, action: Tensor) -> Tensor:
        """Actions scaled from [-1, 1] to [low, high]."""
        scaled = (self.center + self.radius * action).clamp(self.center - self.radius, self.center + self.radius)
        scaled = scaled.round() if np.issubdtype(self.space.dtype, np.integer) else scaled
        return scaled.reshape(*action.shape[:-1], *self.space.shape)

    def to_env(self, action: Tensor) -> Array:
        """``env_action`` as an array, clipped so that rounding cannot leave the space."""
        scaled = self.env_action(action).cpu().numpy()
        return np.clip(scaled, self.space.low, self.space.high).astype(self.space.dtype, copy=False)


@final
class DiscreteActions(nn.Module):
    """Discrete and MultiDiscrete actions as concatenated one-hot vectors.

    Args:
        nvec: Number of actions in each dimension, as in ``MultiDiscrete``.
        start: The smallest action of each dimension.
        single: Whether an action is a scalar (Discrete), not an array of one.
    """

    def __init__(
        self,
        nvec: Sequence[int],
        start: Sequence[int],
        *,
        single: bool,
        temperature: float = 1.0,
        straight_through: bool = True,
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise OptionError("temperature", "be above 0", temperature)
        self.stochastic = True
        self.nvec, self.start = tuple(map(int, nvec)), tuple(map(int, start))
        self._single = single
        self._how: dict[str, Any] = {"temperature": temperature, "straight_through": straight_through}
        self.outputs = self.width = sum(self.nvec)

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> GumbelSoftmax:
        """The outputs are logits."""
        return GumbelSoftmax(outputs, self.nvec, mask, **self._how)

    def normalize(self, action: Tensor) -> Tensor:
        """One-hot actions."""
        columns = [action.long()] if self._single else list(action.long().unbind(dim=-1))
        parts = [
            column[..., None] == torch.arange(first, first + count, device=column.device)
            for column, count, first in zip(columns, self.nvec, self.start, strict=True)
        ]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)).to(torch.float32)

    def env_action(self, action: Tensor) -> Tensor:
        """Action indices."""
        turned = torch.split(action.transpose(-1, -2), list(self.nvec), dim=-2)
        parts = [part.max(dim=-2).indices + first for part, first in zip(turned, self.start, strict=True)]
        return parts[0] if self._single else torch.stack(parts, dim=-1)

    def to_env(self, action: Tensor) -> Array:
        """``env_action`` as an array."""
        return self.env_action(action).cpu().numpy()


@final
class SimplexActions(nn.Module):
    """Box actions from 0 to 1 that sum to one; movement and communication share one simplex."""

    def __init__(self, space: spaces.Box, *, temperature: float = 1.0) -> None:
        super().__init__()
        if space.shape is None or len(space.shape) != 1 or (space.low != 0).any() or (space.high != 1).any():
            raise OptionError("action space", "be a Box from 0 to 1 of one axis for simplex_actions", space)
        if temperature <= 0:
            raise OptionError("temperature", "be above 0", temperature)
        self.stochastic = True
        self._temperature = temperature
        self.outputs = self.width = int(space.shape[0])

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Simplex:  # noqa: ARG002
        """A relaxed categorical (Gumbel-softmax) distribution."""
        return Simplex(outputs, temperature=self._temperature)

    def normalize(self, action: Tensor) -> Tensor:
        """Unchanged."""
        return action.to(torch.float32)

    def env_action(self, action: Tensor) -> Tensor:
        """Unchanged."""
        return action

    def to_env(self, action: Tensor) -> Array:
        """Unchanged."""
        return action.cpu().numpy()


def action_head(
    space: Space[Any], *, temperature: float = 1.0, straight_through: bool = True, simplex_actions: bool = False
) -> BoxActions | DiscreteActions | SimplexActions:
    """The action head of a space.

    Args:
        simplex_actions: Whether Box actions lie on the simplex (sum to one).
    """
    if isinstance(space, spaces.Box):
        return SimplexActions(space, temperature=temperature) if simplex_actions else BoxActions(space)
    if isinstance(space, spaces.Discrete):
        nvec, start = [int(space.n)], [int(space.start)]
    elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        nvec, start = space.nvec.tolist(), space.start.tolist()
    else:
        raise OptionError("action space", "be a Box, Discrete or MultiDiscrete of one axis", space)
    single = isinstance(space, spaces.Discrete)
    return DiscreteActions(nvec, start, single=single, temperature=temperature, straight_through=straight_through)
