"""Stacks against torch's own layers and autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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
@pytest.mark.parametrize("sizes", [(6, 1), (6, 20, 8, 1), (30, 40, 3)])
@pytest.mark.parametrize("lone", [False, True])
def test_slope_in_the_inputs(hidden: str, sizes: tuple[int, ...], lone: bool) -> None:
    random = torch.Generator().manual_seed(1)
    stack = Stack(1 if lone else 2, sizes, hidden=hidden, generator=random)
    inputs = torch.randn(2, 70, sizes[0], generator=random)
    outputs, trace = stack.trace(inputs)
    slope = stack.slope(trace, torch.ones_like(outputs), [1, 3], 3)
    asked = inputs.clone().requires_grad_()
    modules = as_modules(stack, hidden) * (2 if lone else 1)
    sum(module(asked[i]).sum() for i, module in enumerate(modules)).backward()  # type: ignore[union-attr]
    for group, first in enumerate((1, 3)):
        wanted = asked.grad[group, :, first : first + 3]
        torch.testing.assert_close(slope[group], wanted, rtol=1e-4, atol=1e-5)


def test_a_lone_network_takes_many_groups() -> None:
    random = torch.Generator().manual_seed(1)
    stack = Stack(1, (5, 20, 2), generator=random)
    inputs = torch.randn(4, 70, 5, generator=random)
    grad = torch.randn(4, 70, 2, generator=random)
    outputs, trace = stack.trace(inputs)
    torch.testing.assert_close(outputs, stack(inputs.reshape(1, 280, 5)).view(4, 70, 2))
    stack.backward(trace, grad)
    found = stack.grad.clone()
    _, flat = stack.trace(inputs.reshape(1, 280, 5))
    stack.backward(flat, grad.reshape(1, 280, 2))
    torch.testing.assert_close(found, stack.grad, rtol=1e-4, atol=1e-5)


@given(st.data())
def test_any_shape_and_layout(data: Any) -> None:
    """Sizes around the core's tiles, and inputs that lie in memory in odd ways."""
    odd = st.sampled_from([1, 2, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 69])
    sizes = data.draw(st.lists(odd, min_size=2, max_size=4))
    count, rows = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 5, 6, 7, 59, 60, 61, 121]))
    hidden = data.draw(st.sampled_from(list(ACTIVATIONS)))
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    stack = Stack(count, sizes, hidden=hidden, generator=random)
    layout = data.draw(st.sampled_from(["whole", "turned", "columns", "wide"]))
    if layout == "turned":
        inputs = torch.randn(rows, count, sizes[0], generator=random).transpose(0, 1)
    elif layout == "columns":
        inputs = torch.randn(count, sizes[0], rows, generator=random).transpose(1, 2)
    elif layout == "wide":
        inputs = torch.randn(count, rows, sizes[0] + 3, generator=random)[:, :, 2:-1]
    else:
        inputs = torch.randn(count, rows, sizes[0], generator=random)
    grad = torch.randn(count, rows, sizes[-1], generator=random)
    grad = grad.transpose(1, 2).contiguous().transpose(1, 2) if layout == "columns" else grad
    outputs, trace = stack.trace(inputs)
    assert torch.equal(outputs, stack(inputs))
    stack.backward(trace, grad)
    for network, module in enumerate(as_modules(stack, hidden)):
        wanted = module(inputs[network])
        torch.testing.assert_close(outputs[network], wanted, rtol=1e-4, atol=1e-5)
        wanted.backward(grad[network])
        layers = [part for part in module if isinstance(part, nn.Linear)]
        found = torch.cat([torch.cat([layer.weight.grad.T.flatten(), layer.bias.grad]) for layer in layers])
        torch.testing.assert_close(stack.grad[network], found, rtol=1e-3, atol=1e-4)


def test_tanh_over_all_numbers() -> None:
    stack = Stack(1, (1, 1, 1), hidden="tanh")
    stack.flat.copy_(torch.tensor([[1.0, 0.0, 1.0, 0.0]]))
    values = torch.cat([torch.linspace(-30, 30, 20_001), torch.tensor([1e-30, -1e-30, 1e30, -1e30, 0.0])])[:, None]
    torch.testing.assert_close(stack(values)[0], torch.tanh(values), rtol=0, atol=3e-7)


def test_what_is_not_a_number_stays_none() -> None:
    for hidden in ACTIVATIONS:
        stack = Stack(1, (3, 8, 2), hidden=hidden)
        assert stack(torch.full((4, 3), math.nan)).isnan().all()


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


def test_targets() -> None:
    one, two = Stack(2, (3, 4, 1)), Stack(2, (3, 4, 1))
    one.flat.fill_(0.0), two.flat.fill_(1.0)
    one.move_towards(two, 0.25)
    assert (one.flat == 0.25).all()
    one.copy_from(two)
    assert torch.equal(one.flat, two.flat)


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


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_adam_is_torchs(clip: float) -> None:
    random = torch.Generator().manual_seed(0)
    stack = Stack(2, (3, 14, 1), generator=random)
    flats = [row.clone().requires_grad_() for row in stack.flat]
    theirs, ours = torch.optim.Adam(flats, lr=0.01), Adam(stack, 0.01, clip=clip)
    for step in range(5):
        stack.grad.normal_(generator=random)
        stack.grad[1] *= 0.01  # short enough as it is
        for flat, grad in zip(flats, stack.grad, strict=True):
            flat.grad = grad.clone()
            if clip:
                nn.utils.clip_grad_norm_([flat], clip)
        theirs.step()
        if step == 2:
            again = Adam(stack, 0.01, clip=clip)
            again.load(ours.state())
            ours = again
        ours.step()
        torch.testing.assert_close(stack.flat, torch.stack(flats).detach(), rtol=1e-5, atol=1e-6)
