"""Networks side by side: the weights of several as one tensor ``[N, in, out]``, run by the core.

Small networks spend most of a step in autograd's bookkeeping, and in passes over what lies between products. The core
takes some dozens of rows through all layers at once, and backwards the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, final

import torch
from torch import Tensor

from recollect import _core
from recollect.errors import OptionError

__all__ = ["ACTIVATIONS", "Stack", "Trace"]

ACTIVATIONS = {"relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + 0.01**2)), "tanh": 5 / 3}
"""Activations, and the gain of weights before them (He, Glorot)."""


class Trace(NamedTuple):
    """What a backward pass needs."""

    inputs: Tensor
    hidden: Tensor
    """What hidden layers gave, as the core lays it out."""


@final
class Stack:
    """Multi-layer perceptrons of one shape, one for each of ``count`` agents.

    All parameters lie in ``flat [count, P]``, each network's in a row, so that clipping, an optimiser's step and a soft
    update are one operation each. Layers are views of it, and of ``grad`` for their gradients.

    Args:
        sizes: Inputs, hidden layers, outputs.
        init: ``"uniform"``: torch's own for linear layers, 1 / sqrt(inputs) either way; ``"xavier"``: Glorot's uniform
            with the activation's gain; ``"orthogonal"``: with that gain. The last layer has ``last_gain`` instead.
        split: Inputs after which the first layer's second half begins: what comes before reaches only the first half of
            its units and the rest only the second, as if each had a layer of its own.
        generator: Draws the weights.
    """

    def __init__(
        self,
        count: int,
        sizes: Sequence[int],
        *,
        hidden: str = "relu",
        init: str = "uniform",
        last_gain: float = 1.0,
        split: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if count < 1 or len(sizes) < 2 or any(size < 1 for size in sizes):
            raise OptionError("count and sizes", "be at least 1, with inputs and outputs", f"{count} and {list(sizes)}")
        if hidden not in ACTIVATIONS:
            raise OptionError("activation", f"be one of {', '.join(ACTIVATIONS)}", repr(hidden))
        if init not in ("uniform", "xavier", "orthogonal"):
            raise OptionError("init", "be uniform, xavier or orthogonal", repr(init))
        self.count, self.sizes = count, tuple(sizes)
        self._core = _core.Perceptrons(count, list(sizes), hidden)
        self._units = sum(sizes[1:-1])
        shapes = list(pairwise(sizes))
        self.flat = torch.zeros(count, sum(rows * columns + columns for rows, columns in shapes))
        self.grad = torch.zeros_like(self.flat)
        self._flat, self._grad = self.flat.numpy(), self.grad.numpy()  # the same memory
        self.weights, self.biases = self._layers(self.flat, shapes)
        """``[N, in, out]`` and ``[N, 1, out]`` of every layer."""
        self._weight_grads, self._bias_grads = self._layers(self.grad, shapes)
        self._mask = _halves(sizes[0], sizes[1], split) if split is not None else None
        for index, (rows, _) in enumerate(shapes):
            gain = last_gain if index == len(shapes) - 1 else ACTIVATIONS[hidden]
            for network in range(count):
                _draw(self.weights[index][network], init, gain, generator)
                if init == "uniform":
                    bound = last_gain / math.sqrt(rows) if index == len(shapes) - 1 else 1 / math.sqrt(rows)
                    self.biases[index][network].uniform_(-bound, bound, generator=generator)
        if self._mask is not None:
            self.weights[0].mul_(self._mask)

    def _layers(self, flat: Tensor, shapes: Sequence[tuple[int, int]]) -> tuple[list[Tensor], list[Tensor]]:
        weights, biases, start = [], [], 0
        for rows, columns in shapes:
            weights.append(flat[:, start : start + rows * columns].view(self.count, rows, columns))
            start += rows * columns
            biases.append(flat[:, start : start + columns].view(self.count, 1, columns))
            start += columns
        return weights, biases

    # ---- forward and backward --------------------------------------------------------------------------------------

    def __call__(self, inputs: Tensor) -> Tensor:
        """Outputs ``[N, B, out]`` of inputs ``[N, B, in]``, or of ``[B, in]`` that all get.

        A lone network takes inputs of any number of groups, ``[G, B, in]``, and gives each its outputs.
        """
        inputs = self._ready(inputs)
        outputs = torch.empty(*inputs.shape[:2], self.sizes[-1])
        self._core.forward(self._flat, inputs.numpy(), None, outputs.numpy())
        return outputs

    def trace(self, inputs: Tensor) -> tuple[Tensor, Trace]:
        """Outputs, and what a backward pass needs."""
        inputs = self._ready(inputs)
        groups, rows, _ = inputs.shape
        outputs = torch.empty(groups, rows, self.sizes[-1])
        hidden = torch.empty(groups * rows * self._units)
        self._core.forward(self._flat, inputs.numpy(), hidden.numpy(), outputs.numpy())
        return outputs, Trace(inputs, hidden)

    def backward(self, trace: Trace, grad: Tensor) -> None:
        """Write gradients of the parameters from the outputs' gradient ``[N, B, out]``."""
        inputs, hidden = (part.numpy() for part in trace)
        self._core.backward(self._flat, self._grad, inputs, hidden, _by_rows(grad).numpy())
        if self._mask is not None:
            self._weight_grads[0].mul_(self._mask)

    def slope(self, trace: Trace, grad: Tensor, first: Sequence[int], width: int) -> Tensor:
        """The gradient of some inputs, ``[N, B, width]``: those from ``first`` on, which is another for every group."""
        found = torch.empty(*grad.shape[:2], width)
        self._core.slope(self._flat, first, trace.hidden.numpy(), _by_rows(grad).numpy(), found.numpy())
        return found

    def _ready(self, inputs: Tensor) -> Tensor:
        return _by_rows(inputs.expand(self.count, *inputs.shape) if inputs.dim() == 2 else inputs)

    # ---- whole stacks ----------------------------------------------------------------------------------------------

    def copy_from(self, other: Stack) -> None:
        """Take another's parameters."""
        self.load(other.flat)

    def load(self, flat: Tensor) -> None:
        """Take parameters ``[count, P]``."""
        if flat.shape != self.flat.shape:
            raise OptionError("parameters", f"be of shape {list(self.flat.shape)}", list(flat.shape))
        self.flat.copy_(flat)

    def move_towards(self, other: Stack, part: float) -> None:
        """A soft update: ``part`` of the way to another's parameters."""
        self.flat.lerp_(other.flat, part)


def _by_rows(values: Tensor) -> Tensor:
    """Values whose last axis lies together in memory, in rows of their own."""
    together = values.stride(-1) == 1 or values.shape[-1] == 1
    return values if together and (values.stride(-2) > 0 or values.shape[-2] <= 1) else values.contiguous()


def _halves(inputs: int, units: int, split: int) -> Tensor:
    if units % 2 or not 0 < split < inputs:
        raise OptionError("split", f"lie between 1 and {inputs - 1}, with an even first layer", f"{split} and {units}")
    mask = torch.zeros(inputs, units)
    mask[:split, : units // 2] = 1
    mask[split:, units // 2 :] = 1
    return mask


def _draw(weight: Tensor, init: str, gain: float, generator: torch.Generator | None) -> None:
    """Initial weights ``[in, out]`` of one layer."""
    rows, columns = weight.shape
    if init == "orthogonal":
        square = torch.empty(max(rows, columns), min(rows, columns)).normal_(generator=generator)
        q, r = torch.linalg.qr(square)
        q = q * torch.sign(torch.diagonal(r))
        weight.copy_(gain * (q if rows >= columns else q.T))
        return
    bound = gain * math.sqrt(6 / (rows + columns)) if init == "xavier" else 1 / math.sqrt(rows)
    weight.uniform_(-bound, bound, generator=generator)
