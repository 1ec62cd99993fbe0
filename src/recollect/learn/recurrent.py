"""Recurrent networks side by side, run by the core over sequences of different lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from recollect import _core
from recollect.errors import OptionError

__all__ = ["Recurrent", "Unrolled"]


class Unrolled(NamedTuple):
    """What a backward pass through time needs. It can be done once."""

    inputs: Tensor
    counts: list[int]
    records: Tensor


@final
class Recurrent:
    """A layer with ReLU, a gated recurrent unit (Cho et al. 2014) and a layer, one such network for each of ``count``.

    Sequences lie by time, the longest first: rows are the first steps of all of them, then the second steps of those
    that have one, and so on; ``counts[t]`` of them are still going at step t. All parameters lie in
    ``flat [count, P]``. The two gates have one bias each, where torch has two that are added up.

    >>> nets = Recurrent(1, inputs=4, units=8, outputs=2)
    >>> nets(torch.zeros(1, 5, 4), counts=[3, 2]).shape  # three sequences, two of which have a second step
    torch.Size([1, 5, 2])

    Args:
        generator: Draws the weights, as torch does: uniform, 1 / sqrt(inputs) either way for layers and 1 / sqrt(units)
            for the unit.
    """

    def __init__(
        self, count: int, *, inputs: int, units: int, outputs: int, generator: torch.Generator | None = None
    ) -> None:
        if min(count, inputs, units, outputs) < 1:
            sizes = f"{count}, {inputs}, {units} and {outputs}"
            raise OptionError("count, inputs, units and outputs", "be at least 1", sizes)
        self.count, self.inputs, self.units, self.outputs = count, inputs, units, outputs
        self._core = _core.Recurrent(count, inputs, units, outputs)
        self.flat = torch.empty(count, self._core.width)
        self.grad = torch.zeros_like(self.flat)
        self._flat, self._grad = self.flat.numpy(), self.grad.numpy()  # the same memory
        first = (inputs + 1) * units
        bounds = torch.full((self._core.width,), 1 / math.sqrt(units))
        bounds[:first] = 1 / math.sqrt(inputs)
        self.flat.uniform_(-1, 1, generator=generator).mul_(bounds)

    def __call__(self, inputs: Tensor, counts: Sequence[int]) -> Tensor:
        """Outputs ``[N, R, out]`` of sequences ``[N, R, in]`` that begin at zero.

        A lone network takes sequences of any number of groups.
        """
        outputs = torch.empty(*inputs.shape[:2], self.outputs)
        self._core.forward(self._flat, inputs.numpy(), list(counts), None, None, outputs.numpy())
        return outputs

    def trace(self, inputs: Tensor, counts: Sequence[int]) -> tuple[Tensor, Unrolled]:
        """Outputs, and what a backward pass needs."""
        groups, rows, _ = inputs.shape
        outputs = torch.empty(groups, rows, self.outputs)
        records = torch.empty(groups * rows * self._core.record)
        going = list(counts)
        self._core.forward(self._flat, inputs.numpy(), going, None, records.numpy(), outputs.numpy())
        return outputs, Unrolled(inputs, going, records)

    def backward(self, trace: Unrolled, grad: Tensor) -> None:
        """Write gradients of the parameters from the outputs' gradient ``[N, R, out]``; uses the trace up."""
        inputs, counts, records = trace
        down = grad.contiguous().numpy()
        self._core.backward(self._flat, self._grad, inputs.numpy(), counts, records.numpy(), down)

    def step(self, inputs: Tensor, states: Tensor) -> Tensor:
        """Outputs ``[N, B, out]`` of one step; states ``[N, B, units]`` go on from it."""
        outputs = torch.empty(*inputs.shape[:2], self.outputs)
        self._core.forward(self._flat, inputs.numpy(), [inputs.shape[1]], states.numpy(), None, outputs.numpy())
        return outputs

    def load(self, flat: Tensor) -> None:
        """Take parameters ``[count, P]``."""
        if flat.shape != self.flat.shape:
            raise OptionError("parameters", f"be of shape {list(self.flat.shape)}", list(flat.shape))
        self.flat.copy_(flat)
