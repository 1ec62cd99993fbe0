"""Networks of a group of agents over rows or sequences: independent or shared, feed-forward or recurrent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, final

import torch
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn.factories import NetworkFactory, custom_network
from relive.learn.lstm import StackedLSTM
from relive.learn.networks import Copies, StackedGRU, StackedMLP

__all__ = ["RNN", "AgentNetworks", "Packed", "state_size"]

RNN: TypeAlias = Literal["gru", "lstm"]
"""Recurrent layers."""


def state_size(rnn: RNN, units: int) -> int:
    """Width of the state of a recurrent layer: an LSTM has a cell besides."""
    return 2 * units if rnn == "lstm" else units


class Packed(NamedTuple):
    """How rows ``[R, ...]`` form sequences, in the order of torch's ``PackedSequence``."""

    batch_sizes: list[int]
    """Sequences still running at each time step, as ``PackedSequence.batch_sizes``."""
    state: Tensor
    """Initial recurrent states, ``[S, A, size]``."""


@final
class AgentNetworks(nn.Module):
    """One network for each agent, or one shared by all.

    >>> AgentNetworks(3, 4, 2)(torch.zeros(10, 3, 4))[0].shape
    torch.Size([10, 3, 2])

    Args:
        hidden: Units of the hidden layers; a recurrent network has a layer and a recurrent one of the last of them.
        rnn: The recurrent layer.
        shared: Parameter sharing: one network for all agents, with a one-hot agent id appended to its inputs.
        agent_id: Whether a shared network reads the agent id.
        last_gain: Multiplies the last layer's initial weights.
        network: A factory of custom networks, called with the widths of input and output.
    """

    ids: Tensor | None

    def __init__(
        self,
        agents: int,
        inputs: int,
        outputs: int,
        *,
        hidden: Sequence[int] = (64, 64),
        recurrent: bool = False,
        rnn: RNN = "gru",
        shared: bool = True,
        agent_id: bool = True,
        activation: str = "relu",
        init: str = "uniform",
        last_gain: float = 1.0,
        network: NetworkFactory | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.agents, self.outputs, self._shared = agents, outputs, shared
        ids = torch.eye(agents) if shared and agent_id and agents > 1 else None
        self.register_buffer("ids", ids, persistent=False)
        count, inputs = 1 if shared else agents, inputs + (0 if ids is None else agents)
        self.networks: nn.Module
        self.last_layer = ""
        """The name of the last layer, in built-in networks."""
        if network is not None:
            if recurrent:
                raise OptionError("recurrent", "be False with a custom network", True)
            self.networks = Copies(count, lambda: custom_network(network, inputs, outputs))
        elif recurrent:
            kind = StackedLSTM if rnn == "lstm" else StackedGRU
            made = kind(count, inputs=inputs, units=hidden[-1], outputs=outputs, generator=generator)
            for part in ("weight", "bias"):
                made.named_layers()[f"head.{part}"].detach().mul_(last_gain)
            self.networks, self.last_layer = made, "head"
        else:
            how: dict[str, Any] = {"activation": activation, "init": init, "last_gain": last_gain}
            self.networks = StackedMLP(count, (inputs, *hidden, outputs), generator=generator, **how)
            self.last_layer = f"layers.{len(hidden)}"
        self.state_size = state_size(rnn, hidden[-1]) if recurrent else 0
        """Width of the recurrent state; 0 for a feed-forward network."""

    def initial_state(self, num_envs: int) -> Tensor:
        """Recurrent states before the first step, ``[E, A, size]``."""
        where = next(self.parameters()).device
        return torch.zeros(num_envs, self.agents, self.state_size, device=where)

    def forward(self, inputs: Tensor, packed: Packed | None = None) -> tuple[Tensor, Tensor | None]:
        """Outputs ``[R, A, out]`` of inputs ``[R, A, n]``, and the final recurrent states ``[S, A, size]``."""
        rows = inputs.shape[0]
        if self.ids is not None:
            inputs = torch.cat([inputs, self.ids.expand(rows, -1, -1)], dim=2)
        x = inputs.flatten(0, 1)[None] if self._shared else inputs.transpose(0, 1)
        if not self.state_size:
            return self._by_row(self.networks(x), rows), None
        if packed is None:
            raise OptionError("packed", "be given to recurrent networks", None)
        agents = self.agents if self._shared else 1
        state = packed.state.flatten(0, 1)[None] if self._shared else packed.state.transpose(0, 1)
        outputs, last = self.networks(x, [size * agents for size in packed.batch_sizes], state)
        return self._by_row(outputs, rows), self._by_row(last, packed.state.shape[0])

    def alone(self, inputs: Tensor) -> Tensor:
        """Outputs ``[R, out]`` of inputs ``[R, n]``, for a single agent and a feed-forward network."""
        found: Tensor = self.networks(inputs[None]).squeeze(0)
        return found

    def _by_row(self, values: Tensor, rows: int) -> Tensor:
        """Network outputs as ``[R, A, n]``."""
        return values.reshape(rows, self.agents, -1) if self._shared else values.transpose(0, 1)
