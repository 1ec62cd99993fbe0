"""Stacked LSTMs beside torch's own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

import relive as rl
from refusals import refused
from relive.learn import StackedLSTM


def by_torch(network: StackedLSTM, index: int, sequences: list[Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs of packed sequences, the longest first, and their final states, by ``torch.nn.LSTM``."""
    units, layers = network.units, {name: value[index] for name, value in network.named_layers().items()}
    lstm = torch.nn.LSTM(units, units)
    weights = {"weight_ih_l0": layers["lstm.weight"][:units].T, "weight_hh_l0": layers["lstm.weight"][units:].T}
    biases = {"bias_ih_l0": layers["lstm.bias"][0], "bias_hh_l0": torch.zeros(4 * units)}
    packed = pack_sequence([torch.relu(x @ layers["encode.weight"] + layers["encode.bias"]) for x in sequences])
    begun = tuple(part[None].contiguous() for part in state.chunk(2, dim=1))
    found, (h, c) = torch.func.functional_call(lstm, weights | biases, (packed, begun))
    pad_packed_sequence(found)  # which checks that it is one
    return found.data @ layers["head.weight"] + layers["head.bias"], torch.cat([h[0], c[0]], dim=1)


def test_it_is_torchs() -> None:
    """Outputs, final states and gradients of two networks, for sequences of different lengths."""
    torch.manual_seed(0)
    network = StackedLSTM(2, inputs=3, units=4, outputs=2)
    sequences = [[torch.randn(length, 3) for length in (5, 3, 3, 1)] for _ in range(2)]
    packed = [pack_sequence(each) for each in sequences]
    inputs, state = torch.stack([each.data for each in packed]), torch.randn(2, 4, 8)
    outputs, last = network(inputs, packed[0].batch_sizes.tolist(), state)
    pairs = [by_torch(network, index, sequences[index], state[index]) for index in range(2)]
    expected, ends = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(last, ends)
    losses = (o.sum() + s.square().sum() for o, s in ((outputs, last), (expected, ends)))
    found, wanted = (torch.autograd.grad(loss, network.flat)[0] for loss in losses)
    torch.testing.assert_close(found, wanted)
    assert (found != 0).float().mean(dim=1).min() > 0.5, "gradients reach both networks"


def test_sequences_that_are_none() -> None:
    network = StackedLSTM(1, inputs=3, units=4, outputs=2)
    outputs, state = network(torch.zeros(1, 0, 3), [])
    assert (outputs.shape, state.shape, network.state_size) == ((1, 0, 2), (1, 0, 8), 8)


def test_refused_sizes() -> None:
    with refused(rl.errors.OptionError, "num_networks, inputs, units and outputs", got="1, 3, 0 and 2"):
        StackedLSTM(1, inputs=3, units=0, outputs=2)
