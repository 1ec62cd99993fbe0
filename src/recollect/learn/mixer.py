"""Mixing of agents' values into one that never falls when one of them rises (Rashid et al. 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from recollect import _core
from recollect.learn.stack import Stack, Trace

__all__ = ["Mixer", "Mixing"]


class Mixing(NamedTuple):
    """What a backward pass needs."""

    parts: tuple[Tensor, ...]
    """Values of agents; first weights, biases, last weights and what is added, as the state has them."""
    hidden: Tensor
    traces: tuple[Trace, ...]


@final
class Mixer:
    """Two layers whose weights are the sizes of what other networks make of the state.

    >>> mixer = Mixer(agents=3, state=10)
    >>> mixer(torch.zeros(5, 3), torch.zeros(5, 10)).shape
    torch.Size([5])

    Args:
        state: Numbers of the state.
        units: Between the two layers.
        hyper: Units of the hidden layer of the networks that give weights; 0: they have none.
    """

    def __init__(
        self, agents: int, state: int, *, units: int = 32, hyper: int = 64, generator: torch.Generator | None = None
    ) -> None:
        between = (hyper,) if hyper else ()
        make: dict[str, Any] = {"generator": generator}
        self.stacks = {
            "first": Stack(1, (state, *between, agents * units), **make),
            "biases": Stack(1, (state, units), **make),
            "last": Stack(1, (state, *between, units), **make),
            "more": Stack(1, (state, units, 1), **make),
        }

    def __call__(self, values: Tensor, state: Tensor) -> Tensor:
        """The mixed value ``[R]`` of agents' values ``[R, A]``."""
        parts = (values, *(stack(state)[0] for stack in self.stacks.values()))
        return _mixed(parts)[0]

    def trace(self, values: Tensor, state: Tensor) -> tuple[Tensor, Mixing]:
        """The mixed value, and what a backward pass needs."""
        outputs, traces = zip(*(stack.trace(state) for stack in self.stacks.values()), strict=True)
        parts = (values, *(output[0] for output in outputs))
        total, hidden = _mixed(parts)
        return total, Mixing(parts, hidden, traces)

    def backward(self, trace: Mixing, grad: Tensor) -> Tensor:
        """Write gradients of the parameters from the mixed value's ``[R]``; returns those of the agents' values."""
        downs = tuple(torch.empty_like(part) for part in trace.parts)
        arrays = [*_arrays(trace.parts), trace.hidden.numpy(), grad.numpy(), *_arrays(downs)]
        _core.unmix(*arrays)
        for stack, inner, down in zip(self.stacks.values(), trace.traces, downs[1:], strict=True):
            stack.backward(inner, down[None])
        return downs[0]


def _mixed(parts: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    hidden, total = torch.empty_like(parts[2]), torch.empty(len(parts[0]))
    values, first, biases, last, more = _arrays(parts)
    _core.mix(values, first, biases, last, more, hidden.numpy(), total.numpy())
    return total, hidden


def _arrays(parts: tuple[Tensor, ...]) -> list[Any]:
    """As the core takes them; the last has no columns there."""
    *most, more = (part.numpy() for part in parts)
    return [*most, more.reshape(-1)]
