"""Native passes beside the same in torch: values and all gradients, on odd shapes and layouts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from relive.learn import kernels
from relive.learn.kernels import ACTIVATIONS, GRUShape, MLPShape, gru, gru_torch, mlp, mlp_torch

ODD = [1, 2, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 69]
NATIVE = ["relu", "leaky_relu", "tanh"]


def laid_out(kind: str, groups: int, rows: int, columns: int, random: torch.Generator) -> Tensor:
    """Values ``[groups, rows, columns]`` that lie in memory in some way."""
    if kind == "turned":
        return torch.randn(rows, groups, columns, generator=random).transpose(0, 1)
    if kind == "columns":
        return torch.randn(groups, columns, rows, generator=random).transpose(1, 2)
    if kind == "wide":
        return torch.randn(groups, rows, columns + 3, generator=random)[:, :, 2:-1]
    if kind == "shared":
        return torch.randn(rows, columns, generator=random)
    return torch.randn(groups, rows, columns, generator=random)


def both(native: Any, plain: Any, leaves: list[Tensor], random: torch.Generator) -> None:
    """Values and all gradients of two functions of the same leaves are the same."""
    found, grads = [], []
    for function in (native, plain):
        asked = [leaf.detach().requires_grad_() for leaf in leaves]
        outputs = function(*asked)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        grads = grads or [torch.randn(output.shape, generator=random) for output in outputs]
        found.append([*outputs, *torch.autograd.grad(outputs, asked, grads, allow_unused=True, materialize_grads=True)])
    for one, other in zip(*found, strict=True):
        scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * scale)


@given(st.data())
def test_perceptrons_are_the_same_in_torch(data: Any) -> None:
    hidden = data.draw(st.lists(st.sampled_from(ODD), min_size=1, max_size=3))
    count, rows = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 5, 6, 7, 59, 60, 61, 121]))
    groups = data.draw(st.integers(1, 3)) if count == 1 else count
    widths = data.draw(st.lists(st.sampled_from([1, 3, 8, 17]), min_size=1, max_size=3))
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    shape = MLPShape(count, (sum(widths), *hidden), data.draw(st.sampled_from(NATIVE)))
    flat = torch.randn(count, shape.width, generator=random) / 3
    kinds = ["whole", "turned", "columns", "wide"] + (["shared"] if groups == count else [])
    parts = [laid_out(data.draw(st.sampled_from(kinds)), groups, rows, n, random) for n in widths]
    both(lambda *x: mlp(shape, *x), lambda *x: mlp_torch(shape, *x), [flat, *parts], random)
    with torch.no_grad():
        torch.testing.assert_close(mlp(shape, flat, *parts), mlp_torch(shape, flat, *parts), rtol=1e-4, atol=1e-5)


@given(st.data())
def test_columns_of_ones_own_are_the_same_in_torch(data: Any) -> None:
    count, rows = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 7, 61]))
    groups = data.draw(st.integers(1, 3)) if count == 1 else count
    width, inputs = data.draw(st.integers(1, 6)), data.draw(st.integers(6, 30))
    first = tuple(data.draw(st.integers(0, inputs - width)) for _ in range(groups))
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    shape = MLPShape(count, (inputs, 17, 8, 2), data.draw(st.sampled_from(NATIVE)))
    flat = torch.randn(count, shape.width, generator=random) / 3
    x = laid_out(data.draw(st.sampled_from(["whole", "shared"])), groups, rows, inputs, random)
    own = torch.randn(groups, rows, width, generator=random)
    learns = data.draw(st.sampled_from([(2,), (0, 1, 2)]))  # the own columns only, or everything

    def call(function: Any) -> Any:
        def run(*leaves: Tensor) -> Tensor:
            given = [leaf if i in learns else leaf.detach() for i, leaf in enumerate(leaves)]
            return function(shape, given[0], given[1], own=(given[2], first))

        return run

    both(call(mlp), call(mlp_torch), [flat, x, own], random)


def sequences(data: Any) -> list[int]:
    lengths = sorted(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=data.draw(st.sampled_from([3, 60])))))
    return [sum(length > t for length in lengths) for t in range(lengths[-1])]


@given(st.data())
def test_recurrent_networks_are_the_same_in_torch(data: Any) -> None:
    inputs, units, outputs = (data.draw(st.sampled_from([1, 3, 4, 7, 8, 9, 16, 17, 33])) for _ in range(3))
    count = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 2)) if count == 1 else count
    batch_sizes = sequences(data)
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    shape = GRUShape(count, inputs, units, outputs)
    flat = torch.randn(count, shape.width, generator=random) / 3
    x = laid_out(data.draw(st.sampled_from(["whole", "turned", "wide"])), groups, sum(batch_sizes), inputs, random)
    state = torch.randn(groups, batch_sizes[0], units, generator=random)
    both(
        lambda flat, x, state: gru(shape, flat, x, batch_sizes, state),
        lambda flat, x, state: gru_torch(shape, flat, x, batch_sizes, state),
        [flat, x, state],
        random,
    )


def test_the_code_in_torch_is_right() -> None:
    """By finite differences, in double precision; second derivatives too."""
    random = torch.Generator().manual_seed(0)

    def leaves(*sizes: tuple[int, ...]) -> list[Tensor]:
        return [torch.randn(*size, generator=random, dtype=torch.float64, requires_grad=True) for size in sizes]

    shape = MLPShape(2, (3, 4, 2), "tanh")
    flat, x, own = leaves((2, shape.width), (2, 5, 3), (2, 5, 1))
    assert torch.autograd.gradcheck(lambda *given: mlp(shape, *given), (flat, x))
    assert torch.autograd.gradgradcheck(lambda *given: mlp(shape, *given), (flat, x))
    assert torch.autograd.gradcheck(lambda f, x, o: mlp(shape, f, x, own=(o, (0, 2))), (flat, x, own))
    unit = GRUShape(2, 2, 3, 2)
    flat, x, state = leaves((2, unit.width), (2, 5, 2), (2, 3, 3))
    assert torch.autograd.gradcheck(lambda f, x, h: gru(unit, f, x, [3, 2], h), (flat, x, state))
    assert torch.autograd.gradgradcheck(lambda f, x, h: gru(unit, f, x, [3, 2], h), (flat, x, state))


def test_second_derivatives_of_native_passes() -> None:
    random = torch.Generator().manual_seed(0)
    shape, unit = MLPShape(2, (3, 8, 2), "tanh"), GRUShape(1, 3, 8, 2)
    cases = [
        (shape.width, lambda flat, x: mlp(shape, flat, x)),
        (shape.width, lambda flat, x: mlp(shape, flat.detach(), x.detach(), own=(x, (0, 0)))),
        (unit.width, lambda flat, x: gru(unit, flat[:1], x[:1], [3, 2])[0]),
    ]
    for width, run in cases:
        flat, x = torch.randn(2, width, generator=random), torch.randn(2, 5, 3, generator=random)
        found = []
        for native in (True, False):
            asked, parameters = x.clone().requires_grad_(), flat.clone().requires_grad_()
            kernels.use(native)
            try:
                (slope,) = torch.autograd.grad(run(parameters, asked).square().sum(), asked, create_graph=True)
                found.append(torch.autograd.grad(slope.square().sum(), asked)[0])
            finally:
                kernels.use(True)
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_a_graph_that_is_kept_can_be_gone_through_again() -> None:
    shape = GRUShape(1, 3, 8, 2)
    flat = torch.randn(1, shape.width).requires_grad_()
    outputs, _ = gru(shape, flat, torch.randn(1, 5, 3), [3, 2])
    one, two = (torch.autograd.grad(outputs.sum(), flat, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(one, two)
    outputs.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        outputs.sum().backward()


class Watched:
    """Counts calls of the core."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        for name in ("_perceptrons", "_recurrent"):
            made = getattr(kernels, name)
            monkeypatch.setattr(kernels, name, lambda shape, made=made: self.count(made(shape)))

    def count(self, core: Any) -> Any:
        self.calls += 1
        return core


def test_what_runs_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    shape, unit = MLPShape(2, (3, 4, 2), "relu"), GRUShape(1, 3, 4, 2)
    flat, x = torch.randn(2, shape.width), torch.randn(2, 5, 3)

    def native(call: Any) -> bool:
        watched.calls = 0
        call()
        return watched.calls > 0

    assert native(lambda: mlp(shape, flat, x))
    assert native(lambda: gru(unit, torch.randn(1, unit.width), x[:1], [3, 2]))
    assert not native(lambda: mlp(shape, flat.double(), x.double()))
    assert not native(lambda: mlp(shape, flat.to("meta"), x.to("meta")))
    assert not native(lambda: mlp(shape._replace(activation="gelu"), flat, x))
    assert not native(lambda: torch.func.vmap(lambda each: mlp(shape, flat, each))(torch.randn(4, 2, 5, 3)))
    assert not native(lambda: torch.func.grad(lambda each: mlp(shape, each, x).sum())(flat))
    assert not native(lambda: mlp(shape, flat, x, own=(x[..., :1].double(), (0, 0))))
    with kernels.used(False):
        assert not native(lambda: mlp(shape, flat, x))
    assert native(lambda: mlp(shape, flat, x))


def test_compiled_networks_are_of_torch() -> None:
    shape = MLPShape(2, (3, 4, 2), "relu")
    flat, x = torch.randn(2, shape.width), torch.randn(2, 5, 3)
    compiled = torch.compile(lambda flat, x: mlp(shape, flat, x), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(flat, x), mlp(shape, flat, x))


def test_records_are_kept_only_where_gradients_are_wanted() -> None:
    shape = MLPShape(1, (3, 4, 2), "relu")
    flat, x = torch.randn(1, shape.width), torch.randn(1, 5, 3)
    assert mlp(shape, flat, x).grad_fn is None
    with torch.no_grad():
        assert mlp(shape, flat.requires_grad_(), x).grad_fn is None
    assert mlp(shape, flat, x).grad_fn is not None


def test_parameters_changed_in_between_are_noticed() -> None:
    shape = MLPShape(1, (3, 4, 2), "relu")
    flat = torch.randn(1, shape.width).requires_grad_()
    outputs = mlp(shape, flat, torch.randn(1, 5, 3))
    with torch.no_grad():
        flat.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


def test_two_numbers_on_paper() -> None:
    """One unit: w = 2, b = 1, then v = 3, c = 0. Input 0.5: hidden 2, output 6. The output's gradient is 1:
    dv = 2, dc = 1, dhidden = 3, dw = 1.5, db = 3, dx = 6.
    """
    shape = MLPShape(1, (1, 1, 1), "relu")
    flat, x = torch.tensor([[2.0, 1.0, 3.0, 0.0]]).requires_grad_(), torch.tensor([[0.5]]).requires_grad_()
    outputs = mlp(shape, flat, x)
    outputs.sum().backward()
    assert outputs.item() == 6
    assert flat.grad.tolist() == [[1.5, 3.0, 2.0, 1.0]]
    assert x.grad.item() == 6


def test_tanh_over_all_numbers() -> None:
    shape, flat = MLPShape(1, (1, 1, 1), "tanh"), torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    values = torch.cat([torch.linspace(-30, 30, 20_001), torch.tensor([1e-30, -1e-30, 1e30, -1e30, 0.0])])[:, None]
    torch.testing.assert_close(mlp(shape, flat, values)[0], torch.tanh(values), rtol=0, atol=3e-7)


def test_what_is_not_a_number_stays_none() -> None:
    for activation in ACTIVATIONS:
        shape = MLPShape(1, (3, 8, 2), activation)
        assert mlp(shape, torch.randn(1, shape.width), torch.full((4, 3), math.nan)).isnan().all()


def test_states_may_lie_in_memory_as_they_will() -> None:
    """A state whose axes were turned, as that of agents with networks of their own is."""
    shape = GRUShape(2, 3, 4, 2)
    flat, x = torch.randn(2, shape.width).requires_grad_(), torch.randn(2, 5, 3)
    turned = torch.randn(3, 2, 4).transpose(0, 1)
    grads = []
    for state in (turned, turned.contiguous()):
        outputs, last = gru(shape, flat, x, [3, 2], state)
        grads.append(torch.autograd.grad(outputs.sum(), flat)[0])
        assert last.shape == state.shape
    torch.testing.assert_close(grads[0], grads[1])
