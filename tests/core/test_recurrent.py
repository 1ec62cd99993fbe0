"""The core's recurrent networks, beside the same in double precision, for any processor and for this one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relive import _core

SIZES = [1, 3, 4, 7, 8, 9, 16, 17, 33]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


class Plain:
    """One network over one sequence after the other, in double precision."""

    def __init__(self, flat: Any, inputs: int, units: int, outputs: int) -> None:
        shapes = [(inputs, units), (2 * units, 2 * units), (units, units), (units, units), (units, outputs)]
        self.layers, at = [], 0
        for rows, columns in shapes:
            weight = flat[at : at + rows * columns].reshape(rows, columns)
            at += rows * columns
            self.layers.append((weight, flat[at : at + columns]))
            at += columns
        assert at == len(flat)

    def run(self, xs: Any, state: Any) -> tuple[list[Any], Any, list[Any]]:
        (first, first_b), (gates, gates_b), (fresh, fresh_b), (hold, hold_b), (last, last_b) = self.layers
        outputs, kept = [], []
        for x in xs:
            got = np.maximum(x @ first + first_b, 0)
            both = np.concatenate([got, state])
            reset, update = np.split(sigmoid(both @ gates + gates_b), 2)
            held = state @ hold + hold_b
            content = np.tanh(got @ fresh + fresh_b + reset * held)
            after = (1 - update) * content + update * state
            kept.append((x, got, state, reset, update, held, content, after))
            outputs.append(after @ last + last_b)
            state = after
        return outputs, state, kept

    def gradients(self, kept: list[Any], grads: Any, carried: Any) -> tuple[Any, Any, Any]:
        """Of parameters, inputs and the state before, from those of the outputs and of the state after."""
        weights = [weight for weight, _ in self.layers]
        found = [(np.zeros_like(weight), np.zeros_like(bias)) for weight, bias in self.layers]
        units, below = len(weights[2]), []
        for (x, got, state, reset, update, held, content, after), grad in zip(kept[::-1], grads[::-1], strict=True):
            down = carried + weights[4] @ grad
            to_content = down * (1 - update) * (1 - content**2)
            to_reset = to_content * held * reset * (1 - reset)
            to_update = down * (state - content) * update * (1 - update)
            to_gates, both = np.concatenate([to_reset, to_update]), np.concatenate([got, state])
            to_both = weights[1] @ to_gates
            to_got = (to_both[:units] + weights[2] @ to_content) * (got > 0)
            carried = down * update + to_both[units:] + weights[3] @ (to_content * reset)
            pairs = [(x, to_got), (both, to_gates), (got, to_content), (state, to_content * reset), (after, grad)]
            for (weight, bias), (value, slope) in zip(found, pairs, strict=True):
                weight += np.outer(value, slope)
                bias += slope
            below.append(weights[0] @ to_got)
        return np.concatenate([part.ravel() for pair in found for part in pair]), np.stack(below[::-1]), carried


@given(st.data())
def test_as_written_plainly(data: Any) -> None:
    inputs, units, outputs = (data.draw(st.sampled_from(SIZES)) for _ in range(3))
    count = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 3)) if count == 1 else count
    lengths = sorted(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=data.draw(st.sampled_from([3, 60])))))[
        ::-1
    ]
    counts = [sum(length > t for length in lengths) for t in range(lengths[0])]
    starts, rows = np.cumsum([0, *counts]), sum(counts)
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    core = _core.Recurrent(count, inputs, units, outputs, plain=data.draw(st.booleans()))
    flat = random.normal(size=(count, core.width)).astype(np.float32) / 3
    x = np.swapaxes(random.normal(size=(rows, groups, inputs + 2)).astype(np.float32)[:, :, 1:-1], 0, 1)
    grad = random.normal(size=(groups, rows, outputs)).astype(np.float32)
    begun = data.draw(st.booleans())
    states = random.normal(size=(groups, len(lengths), units)).astype(np.float32) if begun else None
    before = np.zeros((groups, len(lengths), units)) if states is None else states.copy()
    found, kept = np.empty_like(grad), np.empty(groups * rows * core.record, np.float32)
    again = np.empty_like(grad)
    core.forward(flat, x, counts, None if states is None else states.copy(), None, again)
    core.forward(flat, x, counts, states, kept, found)
    np.testing.assert_array_equal(found, again)
    grads = np.full_like(flat, 7.0)
    to_x = np.full((groups, rows, inputs), 7.0, np.float32) if data.draw(st.booleans()) else None
    after = random.normal(size=(groups, len(lengths), units)).astype(np.float32) * data.draw(st.booleans())
    to_states = after.copy()
    core.backward(flat, grads, x, counts, kept, grad, to_x, to_states)
    wanted = np.zeros((count, core.width))
    for g in range(groups):
        net = 0 if count == 1 else g
        plain = Plain(flat[net].astype(float), inputs, units, outputs)
        for sequence, length in enumerate(lengths):
            places = starts[:length] + sequence
            out, state, parts = plain.run(x[g, places].astype(float), before[g, sequence].astype(float))
            np.testing.assert_allclose(found[g, places], out, rtol=1e-4, atol=1e-4)
            if states is not None:
                np.testing.assert_allclose(states[g, sequence], state, rtol=1e-4, atol=1e-4)
            found_of = plain.gradients(parts, grad[g, places].astype(float), after[g, sequence].astype(float))
            wanted[net] += found_of[0]
            if to_x is not None:
                np.testing.assert_allclose(to_x[g, places], found_of[1], rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(to_states[g, sequence], found_of[2], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(grads, wanted, rtol=1e-3, atol=3e-3)


def test_no_sequences() -> None:
    core = _core.Recurrent(1, 2, 3, 4)
    flat, grad = np.ones((1, core.width), "float32"), np.ones((1, core.width), "float32")
    x, out, kept = np.zeros((1, 0, 2), "float32"), np.zeros((1, 0, 4), "float32"), np.zeros(0, "float32")
    core.forward(flat, x, [], None, kept, out)
    core.backward(flat, grad, x, [], kept, out, x.copy(), np.zeros((1, 0, 3), "float32"))
    assert not grad.any()


def test_what_does_not_fit_is_refused() -> None:
    core = _core.Recurrent(2, 3, 4, 5)
    flat = np.zeros((2, core.width), "float32")
    x, out = np.zeros((2, 6, 3), "float32"), np.zeros((2, 6, 5), "float32")
    states, kept = np.zeros((2, 4, 4), "float32"), np.zeros(12 * core.record, "float32")
    core.forward(flat, x, [4, 2], states, kept, out)
    calls = [
        lambda: core.forward(flat, x, [4, 3], states, kept, out),
        lambda: core.forward(flat, x, [2, 4], states, kept, out),
        lambda: core.forward(flat, x, [7, -1], None, kept, out),
        lambda: core.forward(flat, x, [2**62, 2**62, 2**62, 2**62], None, kept, out),
        lambda: core.forward(flat, x, [4, 2], states[:, :3].copy(), kept, out),
        lambda: core.forward(flat, x, [4, 2], states, kept[1:], out),
        lambda: core.forward(flat, x[:1], [4, 2], None, None, out[:1]),
        lambda: core.forward(flat[:, 1:], x, [4, 2], states, kept, out),
        lambda: core.backward(flat, flat.copy(), x, [4, 2], kept[:-1], out, None, states),
        lambda: core.backward(flat, flat[:1].copy(), x, [4, 2], kept, out, None, states),
        lambda: core.backward(flat, flat.copy(), x, [6, 2], kept, out, None, states),
        lambda: core.backward(flat, flat.copy(), x, [4, 2], kept, np.broadcast_to(out[:, :1], out.shape), None, states),
    ]
    calls += [
        lambda: core.backward(flat, flat.copy(), x, [4, 2], kept, out, x[:, 1:].copy(), states),
        lambda: core.backward(flat, flat.copy(), x, [4, 2], kept, out, None, states[:, 1:].copy()),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="must"):
            call()
    for wrong in ((0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 2**40)):
        with pytest.raises(ValueError, match="must"):
            _core.Recurrent(*wrong)
