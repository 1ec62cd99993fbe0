"""Networks side by side: the weights of several as one tensor ``[N, in, out]``, with gradients worked out by hand.

Small networks spend most of a step in autograd's bookkeeping and in products that are far from square. Both are known
beforehand here: a forward pass keeps each layer's inputs, a backward pass is a few products more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from recollect.errors import OptionError

__all__ = ["ACTIVATIONS", "Activation", "Stack", "Trace", "product"]

Trace: TypeAlias = list[Tensor]
"""What went into each layer, ``[N, B, in]``."""


class Activation(NamedTuple):
    """A function, its gradient from the outputs it gave, and the gain of weights before it (He, Glorot)."""

    forward: Callable[[Tensor], Tensor]
    """May write over its input."""
    backward: Callable[[Tensor, Tensor], Tensor]
    """From the gradient of the outputs, and the outputs."""
    gain: float


ACTIVATIONS = {
    "relu": Activation(torch.relu_, lambda grad, out: torch.ops.aten.threshold_backward(grad, out, 0), math.sqrt(2)),
    "leaky_relu": Activation(
        lambda x: torch.nn.functional.leaky_relu(x, 0.01, inplace=True),
        lambda grad, out: torch.ops.aten.leaky_relu_backward(grad, out, 0.01, True),
        math.sqrt(2 / (1 + 0.01**2)),
    ),
    "tanh": Activation(torch.tanh_, lambda grad, out: torch.ops.aten.tanh_backward(grad, out), 5 / 3),
}


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
        self._hidden = ACTIVATIONS[hidden]
        shapes = list(pairwise(sizes))
        self.flat = torch.zeros(count, sum(rows * columns + columns for rows, columns in shapes))
        self.grad = torch.zeros_like(self.flat)
        self.weights, self.biases = self._layers(self.flat, shapes)
        """``[N, in, out]`` and ``[N, 1, out]`` of every layer."""
        self._weight_grads, self._bias_grads = self._layers(self.grad, shapes)
        self._mask = _halves(sizes[0], sizes[1], split) if split is not None else None
        for index, (rows, _) in enumerate(shapes):
            gain = last_gain if index == len(shapes) - 1 else self._hidden.gain
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

    # ---- forward ---------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Tensor) -> Tensor:
        """Outputs ``[N, B, out]`` of inputs ``[N, B, in]``, or of ``[B, in]`` that all get."""
        return self.trace(inputs)[0]

    def trace(self, inputs: Tensor) -> tuple[Tensor, Trace]:
        """Outputs, and what a backward pass needs."""
        inputs = inputs.expand(self.count, *inputs.shape) if inputs.dim() == 2 else inputs
        return self.after_first(product(inputs, self.weights[0]).add_(self.biases[0]), inputs)

    def after_first(self, value: Tensor, inputs: Tensor) -> tuple[Tensor, Trace]:
        """The same from what the first layer gave, before its activation; it may be written over."""
        trace = [inputs]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            value = self._hidden.forward(value)
            trace.append(value)
            value = product(value, weight).add_(bias)
        return value, trace

    # ---- backward --------------------------------------------------------------------------------------------------

    def backward(self, trace: Trace, grad: Tensor) -> None:
        """Write gradients of the parameters from the outputs' gradient ``[N, B, out]``."""
        for index in range(len(self.weights) - 1, -1, -1):
            _outer(trace[index], grad, self._weight_grads[index])
            torch.sum(grad, dim=1, keepdim=True, out=self._bias_grads[index])
            if index:
                grad = self._hidden.backward(_back(grad, self.weights[index]), trace[index])
        if self._mask is not None:
            self._weight_grads[0].mul_(self._mask)

    def first_grad(self, trace: Trace, grad: Tensor) -> Tensor:
        """The gradient of what the first layer gave, ``[N, B, units]``; none of the parameters'."""
        for index in range(len(self.weights) - 1, 0, -1):
            grad = self._hidden.backward(_back(grad, self.weights[index]), trace[index])
        return grad

    # ---- whole stacks ----------------------------------------------------------------------------------------------

    def copy_from(self, other: Stack) -> None:
        """Take another's parameters."""
        self.flat.copy_(other.flat)

    def move_towards(self, other: Stack, part: float) -> None:
        """A soft update: ``part`` of the way to another's parameters."""
        self.flat.lerp_(other.flat, part)

    def clip(self, norm: float) -> Tensor:
        """Shorten each network's gradient to at most a norm; returns the norms there were, ``[N]``."""
        norms = self.grad.norm(dim=1)
        self.grad.mul_((norm / norms.clamp(min=1e-6)).clamp(max=1.0)[:, None])
        return norms


_NARROW = 16


def product(inputs: Tensor, weight: Tensor) -> Tensor:
    """``inputs [N, B, in] @ weight [N, in, out]``; narrow ones the other way round, which is several times faster."""
    if weight.shape[2] < _NARROW:
        return torch.bmm(weight.transpose(1, 2), inputs.transpose(1, 2)).transpose(1, 2)
    return torch.bmm(inputs, weight)


def _outer(inputs: Tensor, grad: Tensor, out: Tensor) -> None:
    """A weight's gradient: inputs times gradients, summed over the batch."""
    if grad.shape[2] < _NARROW:
        out.copy_(torch.bmm(grad.transpose(1, 2), inputs).transpose(1, 2))
    else:
        torch.bmm(inputs.transpose(1, 2), grad, out=out)


def _back(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a layer's inputs."""
    turned = weight.transpose(1, 2)
    if grad.shape[2] > 1:
        return torch.bmm(grad, turned)
    # Left to itself the product may lie in memory by columns, which makes all that follows slow.
    out = torch.empty(*grad.shape[:2], turned.shape[2])
    return torch.mul(grad, turned, out=out)


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
