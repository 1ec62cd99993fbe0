"""Native forward and backward passes of networks, as ``torch.autograd.Function``.

Each has a torch reference beside it. The native pass runs on the CPU in float32; everything else (float64, another
device, ``torch.compile``, ``torch.func``, an activation that the core lacks, second derivatives) runs in torch.
``use(False)`` turns native passes off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from relive import _core
from relive.types import Array

__all__ = [
    "ACTIVATIONS",
    "GRUShape",
    "MLPShape",
    "Own",
    "gru",
    "gru_torch",
    "mlp",
    "mlp_arrays",
    "mlp_torch",
    "replaced",
    "use",
    "used",
]

ACTIVATIONS: dict[str, Any] = {
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "tanh": torch.tanh,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
}
_NATIVE = frozenset({"relu", "leaky_relu", "tanh"})
_enabled = True

Grads = tuple[Any, ...]


def use(enabled: bool) -> None:
    """Turn native passes on or off for the whole process."""
    global _enabled
    _enabled = enabled


@contextmanager
def used(enabled: bool) -> Iterator[None]:
    """A context with native passes on or off.

    >>> with used(False):
    ...     pass
    """
    before = _enabled
    use(enabled)
    try:
        yield
    finally:
        use(before)


def _native(*tensors: Tensor) -> bool:
    """Whether the core can compute with these tensors."""
    if not _enabled or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return all(tensor.dtype is torch.float32 and tensor.is_cpu for tensor in tensors)


def _recorded(*tensors: Tensor) -> bool:
    """Whether autograd records operations on these tensors."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _by_rows(values: Tensor) -> Tensor:
    """Values with a contiguous last axis and rows that do not overlap."""
    together = values.stride(-1) == 1 or values.shape[-1] == 1
    return values if together and (values.stride(-2) > 0 or values.shape[-2] <= 1) else values.contiguous()


def _again(forward: Any, inputs: Sequence[Tensor], needed: Sequence[bool], grads: Sequence[Tensor | None]) -> Grads:
    """Gradients by torch, which can be differentiated again."""
    wrt = [value for value, need in zip(inputs, needed, strict=True) if need]
    outputs = forward(*inputs)
    pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
    found = iter(
        torch.autograd.grad(
            [output for output, _ in pairs], wrt, [g for _, g in pairs], create_graph=True, materialize_grads=True
        )
    )
    return tuple(next(found) if need else None for need in needed)


# ---- stacked multi-layer perceptrons -------------------------------------------------------------------------------


class MLPShape(NamedTuple):
    """N MLPs of one shape. Parameters are ``flat [N, P]``: each layer's weights ``[in, out]``, then its biases."""

    num_networks: int
    sizes: tuple[int, ...]
    activation: str

    @property
    def width(self) -> int:
        """Parameters of one network."""
        return sum((rows + 1) * columns for rows, columns in pairwise(self.sizes))

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights ``[N, in, out]`` and biases ``[N, 1, out]`` of every layer, as views."""
        return _layers(flat, list(pairwise(self.sizes)))


Own = tuple[Tensor, tuple[int, ...]]
"""Values ``[N, B, n]`` that replace columns of the inputs, and the first of these columns in each group."""


def mlp(shape: MLPShape, flat: Tensor, *inputs: Tensor, own: Own | None = None) -> Tensor:
    """Outputs ``[N, B, out]`` of inputs concatenated along their last axis.

    Args:
        inputs: ``[N, B, n]`` each, or ``[B, n]`` for all networks. A single network takes any number of groups.
        own: Values that replace some input columns, different ones in each group: an agent's own action in the joint
            action.
    """
    if shape.activation not in _NATIVE or not _native(flat, *inputs, *(() if own is None else own[:1])):
        return mlp_torch(shape, flat, *inputs, own=own)
    if own is not None:
        return _OwnMLP.apply(shape, own[1], flat, own[0], *inputs)  # type: ignore[no-untyped-call]
    if _recorded(flat, *inputs):
        return _MLP.apply(shape, flat, *inputs)  # type: ignore[no-untyped-call]
    x = _by_rows(_joined(shape, inputs))
    outputs = torch.empty(*x.shape[:2], shape.sizes[-1])
    _perceptrons(shape).forward(flat.detach().numpy(), x.detach().numpy(), None, outputs.numpy())
    return outputs


def mlp_arrays(shape: MLPShape, flat: Tensor, x: Array) -> Array:
    """Outputs ``[B, out]`` of a NumPy array ``[B, in]`` by a single network: for a few rows, tensors cost more."""
    if shape.activation not in _NATIVE or not _native(flat):
        with torch.no_grad():
            return mlp_torch(shape, flat, torch.from_numpy(x).to(flat.device)[None])[0].cpu().numpy()
    outputs = np.empty((1, len(x), shape.sizes[-1]), np.float32)
    _perceptrons(shape).forward(flat.detach().numpy(), x[None], None, outputs)
    return outputs[0]


def mlp_torch(shape: MLPShape, flat: Tensor, *inputs: Tensor, own: Own | None = None) -> Tensor:
    """``mlp`` in torch."""
    x = _joined(shape, inputs, len(own[0]) if own else 0)
    x = x if own is None else replaced(x, *own)
    for index, (weight, bias) in enumerate(shape.layers(flat)):
        x = x @ weight + bias if shape.num_networks == 1 else torch.baddbmm(bias, x, weight)
        x = x if index == len(shape.sizes) - 2 else ACTIVATIONS[shape.activation](x)
    return x


class _MLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shape: MLPShape, flat: Tensor, *inputs: Tensor) -> Tensor:
        x = _by_rows(_joined(shape, inputs))
        outputs, hidden = _passed(shape, flat, x)
        ctx.shape = shape
        ctx.save_for_backward(flat, *inputs, x, hidden)
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Grads:
        shape, needed = ctx.shape, ctx.needs_input_grad[1:]
        *given, x, hidden = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (None, *_again(lambda *values: (mlp_torch(shape, *values),), given, needed, (grad,)))
        flat, *inputs = given
        core, down = _perceptrons(shape), _by_rows(grad)
        to_flat = torch.empty_like(flat) if needed[0] else None
        if to_flat is not None:
            core.backward(flat.numpy(), to_flat.numpy(), x.numpy(), hidden.numpy(), down.numpy())
        grads = [to_flat]
        first = 0
        for values, need in zip(inputs, needed[1:], strict=True):
            found = None
            if need:
                found = torch.empty(*x.shape[:2], values.shape[-1])
                core.input_grad(flat.numpy(), [first] * len(x), hidden.numpy(), down.numpy(), found.numpy())
                found = found.sum(dim=0) if values.dim() == 2 else found
            grads.append(found)
            first += values.shape[-1]
        return (None, *grads)


class _OwnMLP(torch.autograd.Function):
    """MLPs with frozen parameters that are differentiated by some input columns only: dQ/da."""

    @staticmethod
    def forward(
        ctx: Any, shape: MLPShape, first: tuple[int, ...], flat: Tensor, own: Tensor, *inputs: Tensor
    ) -> Tensor:
        outputs, hidden = _passed(shape, flat, replaced(_joined(shape, inputs, len(own)), own, first))
        ctx.shape, ctx.first = shape, first
        ctx.save_for_backward(flat, own, *inputs, hidden)
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Grads:
        shape, first, needed = ctx.shape, ctx.first, ctx.needs_input_grad[2:]
        *given, hidden = ctx.saved_tensors
        if torch.is_grad_enabled() or any((needed[0], *needed[2:])):

            def again(flat: Tensor, own: Tensor, *inputs: Tensor) -> tuple[Tensor]:
                return (mlp_torch(shape, flat, *inputs, own=(own, first)),)

            with torch.enable_grad():
                return (None, None, *_again(again, given, needed, (grad,)))
        flat, own, *_ = given
        found = torch.empty(own.shape)
        core, down = _perceptrons(shape), _by_rows(grad)
        core.input_grad(flat.numpy(), list(first), hidden.numpy(), down.numpy(), found.numpy())
        return (None, None, None, found, *(None for _ in needed[2:]))


def _passed(shape: MLPShape, flat: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and hidden activations, which the backward pass needs."""
    groups, rows, _ = x.shape
    outputs = torch.empty(groups, rows, shape.sizes[-1])
    hidden = torch.empty(groups * rows * sum(shape.sizes[1:-1]))
    _perceptrons(shape).forward(flat.numpy(), x.numpy(), hidden.numpy(), outputs.numpy())
    return outputs, hidden


def replaced(x: Tensor, own: Tensor, first: Sequence[int]) -> Tensor:
    """Inputs ``[groups, B, in]`` with each group's columns, from ``first[group]`` on, replaced by ``own[group]``."""
    whole = x.clone(memory_format=torch.contiguous_format)
    for group, start in enumerate(first):
        whole[group, :, start : start + own.shape[2]] = own[group]
    return whole


def _joined(shape: MLPShape, inputs: Sequence[Tensor], groups: int = 0) -> Tensor:
    """Inputs concatenated to ``[groups, B, in]``."""
    if all(values.dim() == 2 for values in inputs):
        x = inputs[0] if len(inputs) == 1 else torch.cat(tuple(inputs), dim=1)
        return x.expand(groups or shape.num_networks, *x.shape)
    if len(inputs) == 1:
        return inputs[0]
    groups = next(len(values) for values in inputs if values.dim() == 3)
    return torch.cat([v if v.dim() == 3 else v.expand(groups, *v.shape) for v in inputs], dim=2)


@lru_cache(maxsize=256)
def _perceptrons(shape: MLPShape) -> _core.Perceptrons:
    return _core.Perceptrons(shape.num_networks, list(shape.sizes), shape.activation)


# ---- gated recurrent units -----------------------------------------------------------------------------------------


class GRUShape(NamedTuple):
    """A linear layer with ReLU, a GRU (Cho et al. 2014) and a linear layer; parameters are ``flat [N, P]``.

    Reset and update gates have one bias each, where torch has two that it adds.
    """

    num_networks: int
    inputs: int
    units: int
    outputs: int

    @property
    def width(self) -> int:
        """Parameters of one network."""
        return sum((rows + 1) * columns for rows, columns in self._layers)

    @property
    def _layers(self) -> list[tuple[int, int]]:
        units = self.units
        return [(self.inputs, units), (2 * units, 2 * units), (units, units), (units, units), (units, self.outputs)]

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights and biases, as views: the first layer; reset and update gates, of input and state concatenated; the
        candidate state's from the input, then from the state; the last layer.
        """
        return _layers(flat, self._layers)


def gru(
    shape: GRUShape, flat: Tensor, inputs: Tensor, batch_sizes: Sequence[int], state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Outputs ``[N, R, out]`` of packed sequences, and their final states ``[N, S, units]``.

    Args:
        inputs: ``[N, R, in]`` in the order of torch's ``PackedSequence``: the first steps of all sequences, the longest
            first, then the second steps of those that have one, and so on. A single network takes any number of groups.
        batch_sizes: Sequences still running at each step.
        state: The initial state, ``[N, S, units]``; None: zeros.
    """
    if state is None:
        state = inputs.new_zeros(len(inputs), batch_sizes[0] if len(batch_sizes) else 0, shape.units)
    if not _native(flat, inputs, state):
        return gru_torch(shape, flat, inputs, batch_sizes, state)
    if _recorded(flat, inputs, state):
        return _GRU.apply(shape, tuple(batch_sizes), flat, inputs, state)  # type: ignore[no-untyped-call]
    return _unrolled(shape, batch_sizes, flat.detach(), _by_rows(inputs.detach()), state.detach(), None)


def gru_torch(
    shape: GRUShape, flat: Tensor, inputs: Tensor, batch_sizes: Sequence[int], state: Tensor
) -> tuple[Tensor, Tensor]:
    """``gru`` in torch, step by step."""
    encode, gates, fresh, hold, head = shape.layers(flat)
    outputs, states, ended = [], state, []
    for x in torch.split(inputs, list(batch_sizes), dim=1):
        going = x.shape[1]
        ended.append(states[:, going:])
        before = states[:, :going]
        x = torch.relu(x @ encode[0] + encode[1])
        reset, update = torch.sigmoid(torch.cat([x, before], dim=2) @ gates[0] + gates[1]).chunk(2, dim=2)
        content = torch.tanh(x @ fresh[0] + fresh[1] + reset * (before @ hold[0] + hold[1]))
        states = (1 - update) * content + update * before
        outputs.append(states @ head[0] + head[1])
    last = torch.cat([states, *ended[::-1]], dim=1)
    return torch.cat(outputs, dim=1) if outputs else inputs.new_zeros(len(inputs), 0, shape.outputs), last


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shape: GRUShape, batch_sizes: tuple[int, ...], flat: Tensor, inputs: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = _by_rows(inputs)
        saved = torch.empty(x.shape[0] * x.shape[1] * _recurrent(shape).record)
        ctx.shape, ctx.batch_sizes, ctx.used = shape, batch_sizes, False
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(flat, inputs, state, saved)
        return _unrolled(shape, batch_sizes, flat, x, state, saved)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_state: Tensor | None) -> Grads:
        shape, batch_sizes, needed = ctx.shape, ctx.batch_sizes, ctx.needs_input_grad[2:]
        *given, saved = ctx.saved_tensors
        if torch.is_grad_enabled():

            def unroll(flat: Tensor, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
                return gru_torch(shape, flat, inputs, batch_sizes, state)

            return (None, None, *_again(unroll, given, needed, (grad, grad_state)))
        flat, inputs, state = given
        x = _by_rows(inputs)
        if ctx.used:  # the backward pass overwrites saved activations: with a retained graph they are recomputed
            _unrolled(shape, batch_sizes, flat, x, state, saved)
        ctx.used = True
        down = x.new_zeros(*x.shape[:2], shape.outputs) if grad is None else _by_rows(grad)
        to_flat = torch.empty_like(flat)
        to_inputs = torch.empty(x.shape) if needed[1] else None
        whole = torch.contiguous_format
        to_state = (
            torch.zeros_like(state, memory_format=whole)
            if grad_state is None
            else grad_state.clone(memory_format=whole)
        )
        arrays = [None if each is None else each.numpy() for each in (to_inputs, to_state)]
        _recurrent(shape).backward(
            flat.numpy(), to_flat.numpy(), x.numpy(), list(batch_sizes), saved.numpy(), down.numpy(), *arrays
        )
        found = (to_flat, to_inputs, to_state)
        return (None, None, *(each if need else None for each, need in zip(found, needed, strict=True)))


def _unrolled(
    shape: GRUShape, batch_sizes: Sequence[int], flat: Tensor, x: Tensor, state: Tensor, saved: Tensor | None
) -> tuple[Tensor, Tensor]:
    outputs, last = torch.empty(*x.shape[:2], shape.outputs), state.clone(memory_format=torch.contiguous_format)
    room = None if saved is None else saved.numpy()
    _recurrent(shape).forward(flat.numpy(), x.numpy(), list(batch_sizes), last.numpy(), room, outputs.numpy())
    return outputs, last


@lru_cache(maxsize=256)
def _recurrent(shape: GRUShape) -> _core.Recurrent:
    return _core.Recurrent(*shape)


def _layers(flat: Tensor, shapes: Sequence[tuple[int, int]]) -> list[tuple[Tensor, Tensor]]:
    found, start = [], 0
    for rows, columns in shapes:
        weight = flat[:, start : start + rows * columns].view(len(flat), rows, columns)
        start += rows * columns
        found.append((weight, flat[:, start : start + columns].view(len(flat), 1, columns)))
        start += columns
    return found
