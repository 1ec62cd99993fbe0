"""From a network's outputs to actions, and from actions to what a critic reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from recollect.errors import OptionError

__all__ = ["BoxHead", "ChoiceHead", "Head", "ShareHead", "head_of"]


class Head(Protocol):
    """What an action space means to networks. A critic reads actions in codes: of about the size of 1."""

    outputs: int
    """Numbers that a policy network gives."""
    width: int
    """Numbers of a code."""
    draws: bool
    """Whether a policy explores by drawing from its outputs; else noise is added to its codes."""

    def mode(self, outputs: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The code of the action that the outputs like best."""

    def draw(self, outputs: Tensor, generator: torch.Generator, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The code of an action drawn by the outputs, and what ``backward`` needs."""

    def backward(self, kept: Tensor, grad: Tensor) -> Tensor:
        """The outputs' gradient from a drawn code's."""

    def fit(
        self, outputs: Tensor, code: Tensor, entropy: float, allowed: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """How unlikely codes that were seen are by the outputs ``[A, B]``, less some entropy; and its gradient."""

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
        self.draws = False
        self.shape = tuple(space.shape)
        self.outputs = self.width = int(np.prod(self.shape, dtype=int))
        low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
        self._middle = torch.as_tensor((high + low) / 2, dtype=torch.float32)
        self._half = torch.as_tensor((high - low) / 2, dtype=torch.float32)
        self._low, self._high, self._dtype = space.low, space.high, space.dtype

    def mode(self, outputs: Tensor, allowed: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The outputs' tanh."""
        return torch.tanh(outputs)

    def draw(
        self,
        outputs: Tensor,
        generator: torch.Generator,  # noqa: ARG002
        allowed: Tensor | None = None,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """The outputs' tanh too: the policy is deterministic."""
        code = torch.tanh(outputs)
        return code, code

    def backward(self, kept: Tensor, grad: Tensor) -> Tensor:
        """Tanh's gradient."""
        return torch.ops.aten.tanh_backward(grad, kept)

    def fit(
        self,
        outputs: Tensor,
        code: Tensor,
        entropy: float,  # noqa: ARG002
        allowed: Tensor | None = None,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Half the squared distance: a normal density around the code, whose entropy is the same everywhere."""
        found = torch.tanh(outputs)
        away = found - code
        return (away**2).sum(dim=-1) / 2, torch.ops.aten.tanh_backward(away, found)

    def act(self, code: Tensor) -> np.ndarray[Any, Any]:
        """Actions between low and high."""
        action = (self._middle + self._half * code).numpy().reshape(*code.shape[:-1], *self.shape)
        action = np.rint(action) if np.issubdtype(self._dtype, np.integer) else action
        return np.clip(action, self._low, self._high).astype(self._dtype, copy=False)

    def encode(self, action: Tensor) -> Tensor:
        """Where actions lie between low and high, from -1 to 1."""
        flat = action.reshape(*action.shape[: action.dim() - len(self.shape)], self.width)
        return (flat.to(torch.float32) - self._middle) / self._half


@final
class ChoiceHead:
    """One choice or several: the outputs are logits, the code is one-hot, part by part.

    A drawn action is relaxed: softmax((logits + Gumbel noise) / temperature), so that gradients pass through it (Jang
    et al. 2017, Maddison et al. 2017). Straight through: its code is the one-hot of the largest entry, its gradient
    that of the relaxed one.

    Args:
        counts: How many choices each part has.
        start: The number of each part's first choice.
        single: Whether an action is one number, not an array of one.
    """

    def __init__(
        self,
        counts: Sequence[int],
        start: Sequence[int],
        *,
        single: bool,
        temperature: float = 1.0,
        straight_through: bool = True,
    ) -> None:
        if temperature <= 0:
            raise OptionError("temperature", "be above 0", temperature)
        self.draws = True
        self._counts = tuple(int(count) for count in counts)
        self._start = tuple(int(first) for first in start)
        self._single = single
        self._temperature = temperature
        self._hard = straight_through
        self.outputs = self.width = sum(self._counts)

    # Inside, choices are the last axis but one: reductions over it run along the batch, many times faster.

    def _parts(self, turned: Tensor) -> tuple[Tensor, ...]:
        return torch.split(turned, list(self._counts), dim=-2) if len(self._counts) > 1 else (turned,)

    def mode(self, outputs: Tensor, allowed: Tensor | None = None) -> Tensor:
        """One-hot of the largest logits that are allowed."""
        turned = _masked(outputs, allowed).transpose(-1, -2)
        return _joined([_one_hot(part) for part in self._parts(turned)])

    def draw(self, outputs: Tensor, generator: torch.Generator, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """A relaxed draw: its code, and the relaxed one."""
        turned = _masked(outputs, allowed).transpose(-1, -2)
        noisy = _gumbel(turned.shape, generator).add_(turned).div_(self._temperature)
        parts = [torch.softmax(part, dim=-2) for part in self._parts(noisy)]
        soft = _joined(parts)
        return (_joined([_one_hot(part) for part in parts]) if self._hard else soft), soft

    def backward(self, kept: Tensor, grad: Tensor) -> Tensor:
        """The softmax's gradient, over the temperature."""
        pairs = zip(self._parts(kept.transpose(-1, -2)), self._parts(grad.transpose(-1, -2)), strict=True)
        parts = [soft * (g - (g * soft).sum(dim=-2, keepdim=True)) for soft, g in pairs]
        return _joined(parts).div_(self._temperature)

    def fit(
        self, outputs: Tensor, code: Tensor, entropy: float, allowed: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The cross entropy, less ``entropy`` times the entropy, over all parts."""
        turned = self._parts(_masked(outputs, allowed).transpose(-1, -2))
        total, grads = torch.zeros(code.shape[:-1]), []
        for logits, seen in zip(turned, self._parts(code.transpose(-1, -2)), strict=True):
            log = torch.log_softmax(logits, dim=-2)
            chance = log.exp()
            spread = -(chance * log).sum(dim=-2, keepdim=True)
            total = total - (seen * log).sum(dim=-2) - entropy * spread[..., 0, :]
            grads.append(chance - seen + entropy * chance * (log + spread))
        return total, _joined(grads)

    def act(self, code: Tensor) -> np.ndarray[Any, Any]:
        """The choices' numbers."""
        turned = self._parts(code.transpose(-1, -2))
        parts = [part.max(dim=-2).indices + first for part, first in zip(turned, self._start, strict=True)]
        return (parts[0] if self._single else torch.stack(parts, dim=-1)).numpy()

    def encode(self, action: Tensor) -> Tensor:
        """One-hots of the choices' numbers."""
        action = action.to(torch.int64)  # torch counts in few kinds of unsigned numbers
        columns = [action] if self._single else list(action.unbind(dim=-1))
        parts = [
            column[..., None] == torch.arange(first, first + count, dtype=column.dtype)
            for column, count, first in zip(columns, self._counts, self._start, strict=True)
        ]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)).to(torch.float32)


@final
class ShareHead:
    """A box from 0 to 1 whose actions are shares of one: the softmax of the outputs.

    A drawn action is softmax((outputs + Gumbel noise) / temperature), which the environment and critics get as it is:
    how OpenAI's code of MADDPG moves in particle worlds. Who moves and speaks shares out both together here.
    """

    def __init__(self, space: spaces.Box, *, temperature: float = 1.0) -> None:
        if space.shape is None or len(space.shape) != 1 or (space.low != 0).any() or (space.high != 1).any():
            raise OptionError("action space", "be a Box from 0 to 1 of one axis to be shared out", space)
        if temperature <= 0:
            raise OptionError("temperature", "be above 0", temperature)
        self.draws = True
        self._temperature = temperature
        self.outputs = self.width = int(space.shape[0])

    def mode(self, outputs: Tensor, allowed: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The outputs' softmax."""
        return torch.softmax(outputs, dim=-1)

    def draw(
        self,
        outputs: Tensor,
        generator: torch.Generator,
        allowed: Tensor | None = None,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """The noisy outputs' softmax."""
        soft = torch.softmax((outputs + _gumbel(outputs.shape, generator)) / self._temperature, dim=-1)
        return soft, soft

    def backward(self, kept: Tensor, grad: Tensor) -> Tensor:
        """The softmax's gradient, over the temperature."""
        return kept * (grad - (grad * kept).sum(dim=-1, keepdim=True)) / self._temperature

    def fit(
        self,
        outputs: Tensor,
        code: Tensor,
        entropy: float,
        allowed: Tensor | None = None,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """The cross entropy with the shares, less ``entropy`` times the entropy."""
        log = torch.log_softmax(outputs, dim=-1)
        share = log.exp()
        spread = -(share * log).sum(dim=-1, keepdim=True)
        loss = -(code * log).sum(dim=-1) - entropy * spread[..., 0]
        return loss, share - code + entropy * share * (log + spread)

    def act(self, code: Tensor) -> np.ndarray[Any, Any]:
        """The shares."""
        return code.numpy()

    def encode(self, action: Tensor) -> Tensor:
        """The shares."""
        return action.to(torch.float32)


def head_of(
    space: Space[Any], *, temperature: float = 1.0, straight_through: bool = True, shares: bool = False
) -> Head:
    """The head of an action space.

    Args:
        shares: Whether a box's actions are shares of one.
    """
    if isinstance(space, spaces.Box):
        return ShareHead(space, temperature=temperature) if shares else BoxHead(space)
    if isinstance(space, spaces.Discrete):
        counts, start = [int(space.n)], [int(space.start)]
    elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        counts, start = space.nvec.tolist(), space.start.tolist()
    else:
        raise OptionError("action space", "be a Box, Discrete or MultiDiscrete of one axis", space)
    single = isinstance(space, spaces.Discrete)
    return ChoiceHead(counts, start, single=single, temperature=temperature, straight_through=straight_through)


def _gumbel(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    chance = torch.rand(shape, generator=generator).clamp_(min=1e-30)
    return chance.log_().neg_().clamp_(min=1e-7).log_().neg_()


def _masked(outputs: Tensor, allowed: Tensor | None) -> Tensor:
    return outputs if allowed is None else outputs.masked_fill(~allowed, -1e9)


def _one_hot(turned: Tensor) -> Tensor:
    """One where the largest value is, else zero."""
    places = torch.arange(turned.shape[-2])[:, None]
    return (turned.max(dim=-2, keepdim=True).indices == places).to(torch.float32)


def _joined(parts: list[Tensor]) -> Tensor:
    """Parts one after another, turned back."""
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)).transpose(-1, -2)
