"""The core's recurrent networks and mixers, beside the same in double precision, for any processor and for this one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import _core

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

    def gradients(self, kept: list[Any], grads: Any) -> Any:
        weights = [weight for weight, _ in self.layers]
        found = [(np.zeros_like(weight), np.zeros_like(bias)) for weight, bias in self.layers]
        units = len(weights[2])
        carried = np.zeros(units)
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
        return np.concatenate([part.ravel() for pair in found for part in pair])


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
    core.backward(flat, grads, x, counts, kept, grad)
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
            wanted[net] += plain.gradients(parts, grad[g, places].astype(float))
    np.testing.assert_allclose(grads, wanted, rtol=1e-3, atol=3e-3)


def test_no_sequences() -> None:
    core = _core.Recurrent(1, 2, 3, 4)
    flat, grad = np.ones((1, core.width), "float32"), np.ones((1, core.width), "float32")
    x, out, kept = np.zeros((1, 0, 2), "float32"), np.zeros((1, 0, 4), "float32"), np.zeros(0, "float32")
    core.forward(flat, x, [], None, kept, out)
    core.backward(flat, grad, x, [], kept, out)
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
        lambda: core.backward(flat, flat.copy(), x, [4, 2], kept[:-1], out),
        lambda: core.backward(flat, flat[:1].copy(), x, [4, 2], kept, out),
        lambda: core.backward(flat, flat.copy(), x, [6, 2], kept, out),
        lambda: core.backward(flat, flat.copy(), x, [4, 2], kept, np.broadcast_to(out[:, :1], out.shape)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="must"):
            call()
    for wrong in ((0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 2**40)):
        with pytest.raises(ValueError, match="must"):
            _core.Recurrent(*wrong)


@given(st.data())
def test_mixing_as_written_plainly(data: Any) -> None:
    rows, agents, units = (data.draw(st.integers(*ends)) for ends in ((0, 5), (1, 5), (1, 33)))
    plain = data.draw(st.booleans())
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    shapes = [(rows, agents), (rows, agents * units), (rows, units), (rows, units), (rows,)]
    parts = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    hidden, total = np.empty((rows, units), np.float32), np.empty(rows, np.float32)
    _core.mix(*parts, hidden, total, plain=plain)
    grad = random.normal(size=rows).astype(np.float32)
    found = [np.empty_like(part) for part in parts]
    _core.unmix(*parts, hidden, grad, *found, plain=plain)
    for r in range(rows):
        values, first, biases, last, more = (part[r].astype(float) for part in parts)
        first = first.reshape(agents, units)
        sums = values @ np.abs(first) + biases
        inner = np.where(sums > 0, sums, np.exp(np.minimum(sums, 0)) - 1)
        np.testing.assert_allclose(total[r], inner @ np.abs(last) + more, rtol=1e-4, atol=1e-4)
        down = grad[r] * np.abs(last) * np.where(sums > 0, 1, np.exp(np.minimum(sums, 0)))
        wanted = [
            np.abs(first) @ down,
            (np.outer(values, down) * np.sign(first)).ravel(),
            down,
            grad[r] * inner * np.sign(last),
            grad[r],
        ]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one[r], other, rtol=1e-4, atol=1e-4)


def test_mixing_what_does_not_fit_is_refused() -> None:
    parts = [np.zeros(shape, "float32") for shape in ((3, 2), (3, 8), (3, 4), (3, 4), (3,))]
    hidden, total = np.zeros((3, 4), "float32"), np.zeros(3, "float32")
    _core.mix(*parts, hidden, total)
    calls = [
        lambda: _core.mix(parts[0], parts[1][:, 1:], *parts[2:], hidden, total),
        lambda: _core.mix(*parts, hidden, total[:2]),
        lambda: _core.unmix(*parts, hidden, total[:2], *parts),
        lambda: _core.unmix(*parts, hidden[:2].copy(), total, *parts),
        lambda: _core.unmix(*parts, hidden, total, *(part[:2].copy() for part in parts)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="must"):
            call()


def test_one_step_of_rmsprop_on_paper() -> None:
    """Gradient 3, shortened to 2: v = 0.25 * 4 = 1; the step is 0.5 * 2 / (1 + 1)."""
    flat, grad, square = (np.full((1, 1), value, np.float32) for value in (1.0, 3.0, 0.0))
    _core.rmsprop(flat, grad, square, 0.5, 0.75, 1.0, 2.0)
    assert square.item() == 1
    assert flat.item() == 0.5
