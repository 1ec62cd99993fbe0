"""From a network's outputs to actions, and from actions to what a critic reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from recollect.errors import OptionError

__all__ = ["BoxHead", "ChoiceHead", "Head", "head_of"]


class Head(Protocol):
    """What an action space means to networks. A critic reads actions in codes: of about the size of 1."""

    outputs: int
    """Numbers that a policy network gives."""
    width: int
    """Numbers of a code."""

    def mode(self, outputs: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The code of the action that is best by the outputs; with gradients where they exist."""

    def sample(
        self, outputs: Tensor, generator: torch.Generator, allowed: Tensor | None = None, *, hard: bool = True
    ) -> Tensor:
        """The code of an action drawn by the outputs, with gradients through the draw."""

    def act(self, code: Tensor) -> np.ndarray[Any, Any]:
        """Actions as the environment takes them."""

    def encode(self, action: Tensor) -> Tensor:
        """Codes of actions as they are stored."""


@final
class BoxHead:
    """A box: the outputs' tanh is the code, from -1 to 1, and maps to low and high by a straight line."""

    def __init__(self, space: spaces.Box) -> None:
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise OptionError("action space", "have finite bounds", space, "Wrap the environment to scale its actions.")
        if (space.high <= space.low).any():
            raise OptionError("action space", "have a high above its low everywhere", space)
        self.shape = tuple(space.shape)
        self.outputs = self.width = int(np.prod(self.shape, dtype=int))
        low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
        self._middle = torch.as_tensor((high + low) / 2, dtype=torch.float32)
        self._half = torch.as_tensor((high - low) / 2, dtype=torch.float32)
        self._low, self._high = space.low, space.high

    def mode(self, outputs: Tensor, allowed: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The outputs' tanh."""
        return torch.tanh(outputs)

    def sample(
        self,
        outputs: Tensor,
        generator: torch.Generator,  # noqa: ARG002
        allowed: Tensor | None = None,  # noqa: ARG002
        *,
        hard: bool = True,  # noqa: ARG002
    ) -> Tensor:
        """The outputs' tanh: the policy is deterministic, what explores is noise on top."""
        return torch.tanh(outputs)

    def act(self, code: Tensor) -> np.ndarray[Any, Any]:
        """Actions between low and high."""
        action = (self._middle + self._half * code).numpy().reshape(*code.shape[:-1], *self.shape)
        return np.clip(action, self._low, self._high)

    def encode(self, action: Tensor) -> Tensor:
        """Where actions lie between low and high, from -1 to 1."""
        flat = action.reshape(*action.shape[: action.dim() - len(self.shape)], self.width)
        return (flat.to(torch.float32) - self._middle) / self._half


@final
class ChoiceHead:
    """One choice or several: the outputs are logits, the code is one-hot, part by part.

    A drawn action is relaxed: softmax((logits + Gumbel noise) / temperature), so that gradients pass through it (Jang et
    al. 2017, Maddison et al. 2017); ``hard`` puts the one-hot of its largest entry forward and keeps those gradients.

    Args:
        counts: How many choices each part has.
        start: The number of each part's first choice.
    """

    def __init__(self, counts: Sequence[int], start: Sequence[int], *, single: bool, temperature: float = 1.0) -> None:
        if temperature <= 0:
            raise OptionError("temperature", "be above 0", temperature)
        self._counts = tuple(int(count) for count in counts)
        self._start = tuple(int(first) for first in start)
        self._single = single
        self._temperature = temperature
        self.outputs = self.width = sum(self._counts)

    def _parts(self, outputs: Tensor, allowed: Tensor | None) -> list[Tensor]:
        if allowed is not None:
            outputs = outputs.masked_fill(~allowed, -1e9)
        return list(outputs.split(self._counts, dim=-1)) if len(self._counts) > 1 else [outputs]

    def mode(self, outputs: Tensor, allowed: Tensor | None = None) -> Tensor:
        """One-hot of the largest logits. It has no gradients."""
        parts = [_one_hot(part.argmax(dim=-1), part) for part in self._parts(outputs.detach(), allowed)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def sample(
        self, outputs: Tensor, generator: torch.Generator, allowed: Tensor | None = None, *, hard: bool = True
    ) -> Tensor:
        """A relaxed draw."""
        drawn = []
        for part in self._parts(outputs, allowed):
            chance = torch.rand(part.shape, generator=generator).clamp_(1e-9, 1 - 1e-7)
            soft = torch.softmax((part - torch.log(-torch.log(chance))) / self._temperature, dim=-1)
            if hard:
                soft = _one_hot(soft.detach().argmax(dim=-1), soft) + soft - soft.detach()
            drawn.append(soft)
        return drawn[0] if len(drawn) == 1 else torch.cat(drawn, dim=-1)

    def act(self, code: Tensor) -> np.ndarray[Any, Any]:
        """The choices' numbers."""
        parts = [
            part.argmax(dim=-1) + first
            for part, first in zip(code.split(self._counts, dim=-1), self._start, strict=True)
        ]
        return (parts[0] if self._single else torch.stack(parts, dim=-1)).numpy()

    def encode(self, action: Tensor) -> Tensor:
        """One-hots of the choices' numbers."""
        action = action.to(torch.int64)
        columns = [action] if self._single else list(action.unbind(dim=-1))
        parts = [
            torch.zeros(*column.shape, count).scatter_(-1, (column - first)[..., None], 1.0)
            for column, count, first in zip(columns, self._counts, self._start, strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def head_of(space: Space[Any], *, temperature: float = 1.0) -> Head:
    """The head of an action space."""
    if isinstance(space, spaces.Box):
        return BoxHead(space)
    if isinstance(space, spaces.Discrete):
        return ChoiceHead([int(space.n)], [int(space.start)], single=True, temperature=temperature)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return ChoiceHead(space.nvec.tolist(), space.start.tolist(), single=False, temperature=temperature)
    raise OptionError("action space", "be a Box, Discrete or MultiDiscrete of one axis", space)


def _one_hot(places: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like, requires_grad=False).scatter_(-1, places[..., None], 1.0)
