"""Stacks against torch's own layers and autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import recollect as rc
from recollect.learn import ACTIVATIONS, Adam, Stack

MODULES = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "tanh": nn.Tanh}


def as_modules(stack: Stack, hidden: str) -> list[nn.Sequential]:
    """The same networks, one by one."""
    found = []
    for network in range(stack.count):
        parts: list[nn.Module] = []
        for index, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
            layer = nn.Linear(*weight.shape[1:])
            layer.weight.data.copy_(weight[network].T)
            layer.bias.data.copy_(bias[network, 0])
            parts += [layer] if index == len(stack.weights) - 1 else [layer, MODULES[hidden]()]
        found.append(nn.Sequential(*parts))
    return found


@pytest.mark.parametrize("hidden", list(ACTIVATIONS))
@pytest.mark.parametrize("sizes", [(3, 1), (7, 20, 1), (5, 16, 24, 3), (18, 64, 64, 20), (2, 4, 4, 4, 2)])
@pytest.mark.parametrize("shared_inputs", [False, True])
def test_same_as_autograd(hidden: str, sizes: tuple[int, ...], shared_inputs: bool) -> None:
    random = torch.Generator().manual_seed(3)
    stack = Stack(3, sizes, hidden=hidden, generator=random)
    inputs = torch.randn(9, sizes[0], generator=random)
    inputs = inputs if shared_inputs else torch.randn(3, 9, sizes[0], generator=random)
    grad = torch.randn(3, 9, sizes[-1], generator=random)
    outputs, trace = stack.trace(inputs)
    torch.testing.assert_close(stack(inputs), outputs)
    stack.backward(trace, grad)
    own = inputs if inputs.dim() == 3 else inputs.expand(3, *inputs.shape)
    for network, module in enumerate(as_modules(stack, hidden)):
        wanted = module(own[network])
        torch.testing.assert_close(outputs[network], wanted, rtol=1e-5, atol=1e-6)
        wanted.backward(grad[network])
        layers = [part for part in module if isinstance(part, nn.Linear)]
        found = torch.cat([torch.cat([layer.weight.grad.T.flatten(), layer.bias.grad]) for layer in layers])
        torch.testing.assert_close(stack.grad[network], found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", list(ACTIVATIONS))
def test_slope_in_the_inputs(hidden: str) -> None:
    random = torch.Generator().manual_seed(1)
    stack = Stack(2, (6, 20, 8, 1), hidden=hidden, generator=random)
    inputs = torch.randn(2, 5, 6, generator=random)
    first = torch.bmm(inputs, stack.weights[0]) + stack.biases[0]
    outputs, trace = stack.after_first(first.clone(), inputs)
    slope = stack.first_grad(trace, torch.ones_like(outputs))
    asked = inputs.clone().requires_grad_()
    sum(module(asked[i]).sum() for i, module in enumerate(as_modules(stack, hidden))).backward()  # type: ignore[union-attr]
    torch.testing.assert_close(torch.bmm(slope, stack.weights[0].transpose(1, 2)), asked.grad, rtol=1e-4, atol=1e-6)


def test_two_numbers_on_paper() -> None:
    """One unit: w = 2, b = 1, then v = 3, c = 0. Input 0.5: hidden 2, output 6. The output's gradient is 1:
    dv = 2, dc = 1, dhidden = 3, dw = 1.5, db = 3.
    """
    stack = Stack(1, (1, 1, 1))
    stack.flat.copy_(torch.tensor([[2.0, 1.0, 3.0, 0.0]]))
    outputs, trace = stack.trace(torch.tensor([[0.5]]))
    assert outputs.item() == 6
    stack.backward(trace, torch.ones(1, 1, 1))
    assert stack.grad.tolist() == [[1.5, 3.0, 2.0, 1.0]]


def test_split_keeps_halves_apart() -> None:
    stack = Stack(2, (5, 8, 1), split=3, generator=torch.Generator().manual_seed(0))
    inputs = torch.randn(4, 5)
    outputs, trace = stack.trace(inputs)
    stack.backward(trace, torch.ones_like(outputs))
    for values in (stack.weights[0], stack._weight_grads[0]):
        assert (values[:, :3, 4:] == 0).all()
        assert (values[:, 3:, :4] == 0).all()
        assert (values[:, :3, :4] != 0).any()
    with pytest.raises(
        rc.errors.OptionError, match=r"^split must lie between 1 and 4, with an even first layer, got 5 and"
    ):
        Stack(1, (5, 8, 1), split=5)


def test_initial_weights() -> None:
    random = torch.Generator().manual_seed(0)
    uniform = Stack(2, (100, 50, 10), generator=random)
    assert uniform.weights[0].abs().max() <= 0.1
    assert uniform.weights[0].abs().max() > 0.099
    assert uniform.biases[0].abs().max() <= 0.1
    xavier = Stack(1, (100, 50, 10), init="xavier", generator=random, last_gain=0.01)
    bound = math.sqrt(2) * math.sqrt(6 / 150)
    assert 0.99 * bound < xavier.weights[0].abs().max() <= bound
    assert xavier.weights[1].abs().max() <= 0.01 * math.sqrt(6 / 60)
    assert not xavier.biases[0].any()
    square = Stack(1, (40, 20, 40), init="orthogonal", generator=random).weights
    torch.testing.assert_close(square[0][0].T @ square[0][0], 2 * torch.eye(20), atol=1e-5, rtol=0)
    torch.testing.assert_close(square[1][0] @ square[1][0].T, torch.eye(20), atol=1e-5, rtol=0)
    again = Stack(2, (100, 50, 10), generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.flat, uniform.flat)
    assert (uniform.flat[0] != uniform.flat[1]).any()


def test_targets_and_clipping() -> None:
    one, two = Stack(2, (3, 4, 1)), Stack(2, (3, 4, 1))
    one.flat.fill_(0.0), two.flat.fill_(1.0)
    one.move_towards(two, 0.25)
    assert (one.flat == 0.25).all()
    one.copy_from(two)
    assert torch.equal(one.flat, two.flat)
    one.grad[0], one.grad[1] = 3.0, 0.001
    size = one.grad.shape[1]
    norms = one.clip(0.5)
    torch.testing.assert_close(norms, torch.tensor([3.0, 0.001]) * math.sqrt(size))
    torch.testing.assert_close(one.grad.norm(dim=1), torch.tensor([0.5, 0.001 * math.sqrt(size)]))
    one.grad.zero_()
    one.clip(0.5)
    assert not one.grad.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count and sizes must be at least 1, with inputs and outputs, got 0 and [2, 1]"),
        ({"sizes": (2,)}, "count and sizes must be at least 1, with inputs and outputs, got 1 and [2]"),
        ({"hidden": "selu"}, "activation must be one of relu, leaky_relu, tanh, got 'selu'"),
        ({"init": "zeros"}, "init must be uniform, xavier or orthogonal, got 'zeros'"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rc.errors.OptionError) as caught:
        Stack(**{"count": 1, "sizes": (2, 1), **options})
    assert str(caught.value) == message


def test_adam_is_torchs() -> None:
    random = torch.Generator().manual_seed(0)
    stack = Stack(2, (3, 4, 1), generator=random)
    flat = stack.flat.clone().requires_grad_()
    theirs, ours = torch.optim.Adam([flat], lr=0.01), Adam(stack, 0.01)
    for step in range(5):
        stack.grad.normal_(generator=random)
        flat.grad = stack.grad.clone()
        theirs.step()
        if step == 2:
            again = Adam(stack, 0.01)
            again.load(ours.state())
            ours = again
        ours.step()
        torch.testing.assert_close(stack.flat, flat.detach(), rtol=1e-6, atol=1e-7)
