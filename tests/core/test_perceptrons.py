"""The core's networks, beside the same in double precision, for any processor and for this one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relive import _core

ACT = {
    "relu": (lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(float)),
    "leaky_relu": (lambda x: np.where(x < 0, 0.01 * x, x), lambda y: np.where(y > 0, 1, 0.01)),
    "tanh": (np.tanh, lambda y: 1 - y * y),
}


def layers(flat: Any, sizes: list[int]) -> list[tuple[Any, Any]]:
    found, at = [], 0
    for before, after in itertools.pairwise(sizes):
        weight = flat[at : at + before * after].reshape(before, after)
        at += before * after
        found.append((weight, flat[at : at + after]))
        at += after
    return found


def plainly(flat: Any, sizes: list[int], name: str, x: Any, grad: Any) -> tuple[Any, Any, Any]:
    """Outputs, gradients of the parameters, and of the inputs, of one network."""
    act, slope = ACT[name]
    given_, parts = [x], layers(flat, sizes)
    for index, (weight, bias) in enumerate(parts):
        x = given_[-1] @ weight + bias
        given_.append(x if index == len(parts) - 1 else act(x))
    grads: list[Any] = []
    down = grad
    for index in range(len(parts) - 1, -1, -1):
        grads = [(given_[index].T @ down).ravel(), down.sum(axis=0), *grads]
        down = down @ parts[index][0].T
        if index:
            down = down * slope(given_[index])
    return given_[-1], np.concatenate(grads), down


@given(st.data())
def test_as_written_plainly(data: Any) -> None:
    sizes = data.draw(
        st.lists(st.sampled_from([1, 3, 4, 7, 8, 9, 16, 17, 33, 64, 97, 130, 200]), min_size=2, max_size=4)
    )
    count, rows = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, 1, 6, 13, 60, 61, 125]))
    groups = data.draw(st.integers(1, 3)) if count == 1 else count
    name = data.draw(st.sampled_from(list(ACT)))
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    core = _core.Perceptrons(count, sizes, name, plain=data.draw(st.booleans()))
    width = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    flat = random.normal(size=(count, width)).astype(np.float32) / 4
    wide = random.normal(size=(rows, groups, sizes[0] + 2)).astype(np.float32)
    x = np.swapaxes(wide[:, :, 1:-1], 0, 1)
    grad = random.normal(size=(groups, rows, sizes[-1])).astype(np.float32)
    outputs, hidden = np.empty_like(grad), np.empty(groups * rows * sum(sizes[1:-1]), np.float32)
    core.forward(flat, x, hidden, outputs)
    again = np.empty_like(outputs)
    core.forward(flat, x, None, again)
    np.testing.assert_array_equal(again, outputs)
    found = np.full_like(flat, 7.0)
    core.backward(flat, found, x, hidden, grad)
    some = data.draw(st.integers(1, sizes[0]))
    first = [data.draw(st.integers(0, sizes[0] - some)) for _ in range(groups)]
    down = np.empty((groups, rows, some), np.float32)
    core.input_grad(flat, first, hidden, grad, down)
    wanted = np.zeros((count, width))
    for g in range(groups):
        net = 0 if count == 1 else g
        out, grads, inputs = plainly(flat[net].astype(float), sizes, name, x[g].astype(float), grad[g].astype(float))
        wanted[net] += grads
        np.testing.assert_allclose(outputs[g], out, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(down[g], inputs[:, first[g] : first[g] + some], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-3)


def test_what_does_not_fit_is_refused() -> None:
    core = _core.Perceptrons(2, [3, 8, 3], "relu")
    flat, x = np.zeros((2, 59), "float32"), np.zeros((2, 4, 3), "float32")
    hidden = np.zeros(64, "float32")
    core.forward(flat, x, None, x.copy())
    calls = [
        lambda: core.forward(flat[:, 1:], x, None, x.copy()),
        lambda: core.forward(flat, x[:, :, :2], None, x.copy()),
        lambda: core.forward(flat, x.astype("float64"), None, x.copy()),
        lambda: core.forward(flat, x.astype(">f4"), None, x.copy()),
        lambda: core.forward(flat, x[:1], None, x[:1].copy()),
        lambda: core.forward(flat, x, None, x[:, :2].copy()),
        lambda: core.forward(flat, np.asfortranarray(x), None, x.copy()),
        lambda: core.forward(flat, x, None, np.broadcast_to(x[:1], x.shape)),
        lambda: core.forward(flat.tolist(), x, None, x.copy()),
        lambda: core.backward(flat, flat.copy(), x, hidden[:3], x),
        lambda: core.input_grad(flat, [0, 2], hidden, x, x[:, :, :2].copy()),
        lambda: core.input_grad(flat, [0], hidden, x, x[:, :, :2].copy()),
        lambda: core.input_grad(flat, [0, 2**63 - 1], hidden, x, x[:, :, :2].copy()),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="must"):
            call()
    for wrong in (
        (0, [2, 1], "relu"),
        (1, [2], "relu"),
        (1, [2, 0], "relu"),
        (1, [2, 1], "selu"),
        (2**60, [1, 1], "relu"),
    ):
        with pytest.raises(ValueError, match="must"):
            _core.Perceptrons(*wrong)
