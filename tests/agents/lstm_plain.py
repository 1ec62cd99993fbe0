"""A recurrent network with an LSTM, by torch's own cell."""

from __future__ import annotations

import torch
from qmix_plain import layers, recurrent
from torch import Tensor


def lstm(flat: Tensor, inputs: int, units: int, outputs: int, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The cell's gates have two biases each: one of them is zero."""
    shapes = [(inputs, units), (2 * units, 4 * units), (units, outputs)]
    (first, fb), (gates, gb), (last, lb) = layers(flat, shapes)
    got, (h, c) = (x @ first + fb).relu(), state.chunk(2)
    h, c = torch.lstm_cell(got[None], (h[None], c[None]), gates[:units].T, gates[units:].T, gb, torch.zeros(4 * units))
    return h[0] @ last + lb, torch.cat([h[0], c[0]])


def rnn_step(rnn: str, *given: object) -> tuple[Tensor, Tensor]:
    """Outputs and the next state by the recurrent layer of that name."""
    return {"gru": recurrent, "lstm": lstm}[rnn](*given)  # type: ignore[arg-type]


def rnn_state(rnn: str, units: int) -> Tensor:
    """The state as an episode begins."""
    return torch.zeros({"gru": 1, "lstm": 2}[rnn] * units)
