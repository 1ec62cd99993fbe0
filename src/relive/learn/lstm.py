"""Stacked LSTMs (Hochreiter and Schmidhuber 1997), in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from relive.learn.networks import FlatNetworks, recurrent_parameters

__all__ = ["StackedLSTM"]


@final
class StackedLSTM(FlatNetworks):
    """N recurrent networks: a linear layer with ReLU, an LSTM and a linear layer.

    States are the hidden state and the cell, concatenated.

    >>> network = StackedLSTM(1, inputs=4, units=8, outputs=2)
    >>> outputs, state = network(torch.zeros(1, 5, 4), [3, 2])  # three sequences, two of which have a second step
    >>> outputs.shape, state.shape
    (torch.Size([1, 5, 2]), torch.Size([1, 3, 16]))

    Args:
        generator: For the initial weights, distributed as torch's: U(-k, k), k = 1/sqrt(in) for linear layers and
            1/sqrt(units) for the LSTM.
    """

    def __init__(
        self, num_networks: int, *, inputs: int, units: int, outputs: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.units = units
        self._shapes = {"encode": (inputs, units), "lstm": (2 * units, 4 * units), "head": (units, outputs)}
        width = sum((rows + 1) * columns for rows, columns in self._shapes.values())
        self.flat = recurrent_parameters(num_networks, inputs, units, outputs, width, generator)

    @property
    def state_size(self) -> int:
        """Width of the recurrent state."""
        return 2 * self.units

    def named_layers(self) -> dict[str, Tensor]:
        """``encode``, ``lstm`` and ``head``.

        ``lstm`` is of input and hidden state concatenated, to the input gate, forget gate, cell and output gate.
        """
        found, start = {}, 0
        for name, (rows, columns) in self._shapes.items():
            for part, size in (("weight", rows), ("bias", 1)):
                end = start + size * columns
                found[f"{name}.{part}"] = self.flat[:, start:end].view(len(self.flat), size, columns)
                start = end
        return found

    def forward(self, inputs: Tensor, batch_sizes: Sequence[int], state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs ``[N, R, out]`` of packed sequences ``[N, R, in]``, and their final states ``[N, S, 2 units]``."""
        layers, units = self.named_layers(), self.units
        x = torch.relu(inputs @ layers["encode.weight"] + layers["encode.bias"])
        of_input, of_hidden = layers["lstm.weight"].chunk(2, dim=1)
        given = x @ of_input + layers["lstm.bias"]  # of all steps at once
        if state is None:
            state = inputs.new_zeros(len(inputs), batch_sizes[0] if len(batch_sizes) else 0, 2 * units)
        shown, ended = [given[:, :0, :units]], []
        for gates in torch.split(given, list(batch_sizes), dim=1):
            going = gates.shape[1]
            ended.append(state[:, going:])
            hidden, cell = state[:, :going].chunk(2, dim=2)
            enter, keep, content, show = (gates + hidden @ of_hidden).chunk(4, dim=2)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(content)
            hidden = torch.sigmoid(show) * torch.tanh(cell)
            shown.append(hidden)
            state = torch.cat([hidden, cell], dim=2)
        outputs = torch.cat(shown, dim=1) @ layers["head.weight"] + layers["head.bias"]
        return outputs, torch.cat([state, *ended[::-1]], dim=1)
