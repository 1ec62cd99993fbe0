"""Target networks and their Polyak (soft) updates."""

from __future__ import annotations

import copy
from typing import TypeVar, final

import torch
from torch import Tensor, nn

from relive.errors import OptionError

__all__ = ["Polyak", "polyak_update", "target_of"]

Module = TypeVar("Module", bound=nn.Module)
Pair = tuple[list[Tensor], list[Tensor]]


def target_of(network: Module) -> Module:
    """A target network: a copy without gradients, to be changed by ``polyak_update``."""
    return copy.deepcopy(network).requires_grad_(False)


def polyak_update(target: nn.Module, source: nn.Module, tau: float) -> None:
    """The soft update target <- tau source + (1 - tau) target; tau 1 is a hard update. Buffers are copied.

    >>> source = nn.Linear(1, 1)
    >>> target = target_of(source)
    >>> polyak_update(target, source, 0.01)
    """
    Polyak(target, source).update(tau)


@final
class Polyak:
    """A target network and its source, for repeated soft updates: their parameters are collected once."""

    def __init__(self, target: nn.Module, source: nn.Module) -> None:
        self._parameters: Pair = list(target.parameters()), list(source.parameters())
        self._buffers: Pair = list(target.buffers()), list(source.buffers())
        for mine, others in (self._parameters, self._buffers):
            if [each.shape for each in mine] != [each.shape for each in others]:
                raise OptionError("target", "be made as the source is", "another module", "Make it by target_of.")

    @torch.no_grad()
    def update(self, tau: float) -> None:
        """Soft update: target <- tau source + (1 - tau) target; buffers are copied."""
        if not 0 < tau <= 1:
            raise OptionError("tau", "be above 0 and at most 1", tau)
        if tau == 1.0:
            torch._foreach_copy_(*self._parameters)
        else:
            torch._foreach_lerp_(*self._parameters, tau)
        if self._buffers[0]:
            torch._foreach_copy_(*self._buffers)
