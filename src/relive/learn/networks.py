"""Stacked networks as torch modules: N MLPs or N recurrent networks in one.

The parameters of N networks of one shape are one ``nn.Parameter [N, P]``, a row each, so that an optimiser step, a soft
update and gradient clipping are one operation each. ``state_dict`` has every layer by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from relive.errors import OptionError
from relive.learn import kernels
from relive.learn.kernels import ACTIVATIONS, GRUShape, MLPShape, Own
from relive.types import Array

__all__ = [
    "INITS",
    "Copies",
    "FlatNetworks",
    "PerAgent",
    "StackedGRU",
    "StackedMLP",
    "recurrent_parameters",
]

INITS = ("uniform", "xavier", "orthogonal")
_GAINS = {"relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + 0.01**2)), "tanh": 5 / 3}


class FlatNetworks(nn.Module):
    """N networks whose parameters are one tensor, ``flat [N, P]``, saved layer by layer."""

    flat: nn.Parameter

    def named_layers(self) -> dict[str, Tensor]:
        """Weights ``[N, in, out]`` and biases ``[N, 1, out]`` by name, as views of ``flat``."""
        raise NotImplementedError

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self.named_layers().items():
            destination[prefix + name] = value if keep_vars else value.detach()

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        _metadata: Any,
        strict: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        layers = self.named_layers()
        if strict:
            mine = (key for key in state_dict if key.startswith(prefix))
            unexpected += [key for key in mine if key.removeprefix(prefix) not in layers]
        for name, value in layers.items():
            found = state_dict.get(prefix + name)
            if found is None:
                missing.append(prefix + name)
            elif found.shape != value.shape:
                errors.append(f"{prefix + name} must be {list(value.shape)}, got {list(found.shape)}")
            else:
                value.detach().copy_(found)


@final
class StackedMLP(FlatNetworks):
    """N multi-layer perceptrons of one shape.

    >>> StackedMLP(3, (4, 8, 2))(torch.zeros(3, 10, 4)).shape
    torch.Size([3, 10, 2])

    Args:
        sizes: Inputs, hidden layers, outputs.
        init: ``"uniform"``: torch's default for linear layers, U(-1/sqrt(in), 1/sqrt(in)); ``"xavier"``: Glorot uniform
            with the activation's gain; ``"orthogonal"``: with that gain. The last layer uses ``last_gain`` instead.
        split: Makes the first layer block-diagonal: the first ``split`` inputs reach the first half of its units, the
            rest the second half, as if each had a layer of its own.
        generator: For the initial weights.
    """

    mask: Tensor | None

    def __init__(
        self,
        num_networks: int,
        sizes: Sequence[int],
        *,
        activation: str = "relu",
        init: str = "uniform",
        last_gain: float = 1.0,
        split: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if num_networks < 1 or len(sizes) < 2 or any(size < 1 for size in sizes):
            given = f"{num_networks} and {list(sizes)}"
            raise OptionError("num_networks and sizes", "be at least 1, with inputs and outputs", given)
        if activation not in ACTIVATIONS:
            raise OptionError("activation", f"be one of {', '.join(ACTIVATIONS)}", repr(activation))
        if init not in INITS:
            raise OptionError("init", f"be one of {', '.join(INITS)}", repr(init))
        self.shape = MLPShape(num_networks, tuple(map(int, sizes)), activation)
        self.flat = nn.Parameter(torch.zeros(num_networks, self.shape.width))
        mask = None
        if split is not None:
            mask = torch.ones_like(self.flat)
            self.shape.layers(mask)[0][0].copy_(_halves(sizes[0], sizes[1], split))
        self.register_buffer("mask", mask, persistent=False)
        layers = self.shape.layers(self.flat.detach())
        for index, (weight, bias) in enumerate(layers):
            gain = last_gain if index == len(layers) - 1 else _GAINS.get(activation, math.sqrt(2))
            for network in range(num_networks):
                _draw(weight[network], init, gain, generator)
                if init == "uniform" and index == len(layers) - 1:
                    weight[network].mul_(last_gain)
                if init == "uniform":
                    bound = (last_gain if index == len(layers) - 1 else 1.0) / math.sqrt(weight.shape[1])
                    bias[network].uniform_(-bound, bound, generator=generator)
        if mask is not None:
            self.flat.data.mul_(mask)

    def named_layers(self) -> dict[str, Tensor]:
        """``layers.0.weight [N, in, out]``, ``layers.0.bias [N, 1, out]`` and so on."""
        pairs = self.shape.layers(self.flat)
        return {
            f"layers.{index}.{name}": value
            for index, pair in enumerate(pairs)
            for name, value in zip(("weight", "bias"), pair, strict=True)
        }

    def forward(self, *inputs: Tensor, own: Own | None = None) -> Tensor:
        """Outputs ``[N, B, out]`` of inputs concatenated along their last axis.

        Args:
            inputs: ``[N, B, n]`` each, or ``[B, n]`` for all networks. A single network takes any number of groups.
            own: Values ``[N, B, n]`` that replace some input columns, and the first of these columns in each group.
        """
        flat = self.flat if self.mask is None else self.flat * self.mask
        return kernels.mlp(self.shape, flat, *inputs, own=own)

    def of_array(self, x: Array) -> Array:
        """Outputs ``[B, out]`` of a NumPy array ``[B, in]`` by a single network, without a gradient."""
        flat = self.flat if self.mask is None else self.flat * self.mask
        return kernels.mlp_arrays(self.shape, flat, np.ascontiguousarray(x, np.float32))


@final
class StackedGRU(FlatNetworks):
    """N recurrent networks: a linear layer with ReLU, a GRU and a linear layer.

    >>> network = StackedGRU(1, inputs=4, units=8, outputs=2)
    >>> outputs, state = network(torch.zeros(1, 5, 4), [3, 2])  # three sequences, two of which have a second step
    >>> outputs.shape, state.shape
    (torch.Size([1, 5, 2]), torch.Size([1, 3, 8]))

    Args:
        generator: For the initial weights, distributed as torch's: U(-k, k), k = 1/sqrt(in) for linear layers and
            1/sqrt(units) for the GRU.
    """

    def __init__(
        self, num_networks: int, *, inputs: int, units: int, outputs: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.shape = GRUShape(num_networks, inputs, units, outputs)
        self.flat = recurrent_parameters(*self.shape, self.shape.width, generator)

    @property
    def state_size(self) -> int:
        """Width of the recurrent state."""
        return self.shape.units

    def named_layers(self) -> dict[str, Tensor]:
        """``encode``, ``gru.gates`` (reset, update), ``gru.content_input``, ``gru.content_state`` and ``head``."""
        names = ("encode", "gru.gates", "gru.content_input", "gru.content_state", "head")
        pairs = zip(names, self.shape.layers(self.flat), strict=True)
        return {f"{name}.{part}": value for name, pair in pairs for part, value in zip(("weight", "bias"), pair)}  # noqa: B905

    def forward(self, inputs: Tensor, batch_sizes: Sequence[int], state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs ``[N, R, out]`` of packed sequences ``[N, R, in]``, and their final states ``[N, S, units]``."""
        return kernels.gru(self.shape, self.flat, inputs, batch_sizes, state)


@final
class Copies(nn.Module):
    """N custom networks behind ``StackedMLP``'s interface.

    Args:
        make: Makes one network.
    """

    def __init__(self, num_networks: int, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(make() for _ in range(num_networks))

    def forward(self, *inputs: Tensor, own: Own | None = None) -> Tensor:
        """Outputs ``[N, B, out]`` of inputs as a ``StackedMLP`` takes them."""
        groups = len(own[0]) if own else next((len(x) for x in inputs if x.dim() == 3), len(self.networks))
        x = torch.cat([x if x.dim() == 3 else x.expand(groups, *x.shape) for x in inputs], dim=2)
        x = x if own is None else kernels.replaced(x, *own)
        if len(self.networks) == 1:
            outputs: Tensor = self.networks[0](x.flatten(0, 1))
            return outputs.view(groups, -1, outputs.shape[-1])
        return torch.stack([network(mine) for network, mine in zip(self.networks, x, strict=True)])


@final
class PerAgent(nn.Module):
    """The networks of a group of agents: independent or shared, each an ensemble if asked for.

    >>> PerAgent(3, lambda count, more: StackedMLP(count, (4 + more, 8, 2)))(torch.zeros(3, 10, 4)).shape
    torch.Size([3, 10, 2])

    Args:
        make: Makes stacked networks, called with their number and the width of the agent id.
        shared: Parameter sharing: one network for all agents, with a one-hot agent id before its inputs.
        ensemble: Networks of each agent; ``ensemble_index`` selects one for every row.
    """

    ids: Tensor | None

    def __init__(
        self, agents: int, make: Callable[[int, int], nn.Module], *, shared: bool = False, ensemble: int = 1
    ) -> None:
        super().__init__()
        self.agents, self.ensemble, self.shared = agents, ensemble, shared
        ids = torch.eye(agents)[:, None] if shared and agents > 1 else None
        self.register_buffer("ids", ids, persistent=False)
        self.networks = make(ensemble if shared else agents * ensemble, 0 if ids is None else agents)

    def forward(self, *inputs: Tensor, ensemble_index: Tensor | None = None, own: Own | None = None) -> Tensor:
        """Outputs ``[A, B, out]`` of inputs ``[A, B, n]``, or of ``[B, n]`` for all agents.

        Args:
            ensemble_index: The ensemble member to use, ``[A, B]``.
            own: Values ``[A, B, n]`` that replace some input columns, and the first of these columns for each agent.
        """
        if self.shared:
            inputs = tuple(x if x.dim() == 3 else x.expand(self.agents, *x.shape) for x in inputs)
            if self.ids is not None:
                inputs = (self.ids.expand(-1, inputs[0].shape[1], -1), *inputs)
                own = own and (own[0], tuple(start + self.agents for start in own[1]))
        if self.ensemble == 1:
            return self.networks(*inputs, own=own)
        if ensemble_index is None:
            raise OptionError("ensemble_index", f"select one of {self.ensemble} networks", None)
        if self.shared:
            whole = torch.cat(inputs, dim=2).flatten(0, 1)
            outputs = self.networks(whole)
            by_agent = outputs.view(self.ensemble, self.agents, -1, outputs.shape[-1]).transpose(0, 1)
        else:
            each = (x if x.dim() == 2 else x.repeat_interleave(self.ensemble, dim=0) for x in inputs)
            by_agent = self.networks(*each).view(self.agents, self.ensemble, inputs[0].shape[-2], -1)
        places = ensemble_index[:, None, :, None].expand(-1, 1, -1, by_agent.shape[-1])
        return by_agent.gather(1, places)[:, 0]


def recurrent_parameters(
    num_networks: int, inputs: int, units: int, outputs: int, width: int, generator: torch.Generator | None
) -> nn.Parameter:
    """Initial parameters ``[N, width]`` of recurrent networks that begin with a linear layer, as torch draws them."""
    if min(num_networks, inputs, units, outputs) < 1:
        given = f"{num_networks}, {inputs}, {units} and {outputs}"
        raise OptionError("num_networks, inputs, units and outputs", "be at least 1", given)
    bounds = torch.full((width,), 1 / math.sqrt(units))
    bounds[: (inputs + 1) * units] = 1 / math.sqrt(inputs)
    return nn.Parameter(torch.empty(num_networks, width).uniform_(-1, 1, generator=generator).mul_(bounds))


def _halves(inputs: int, units: int, split: int) -> Tensor:
    if units % 2 or not 0 < split < inputs:
        raise OptionError("split", f"lie between 1 and {inputs - 1}, with an even first layer", f"{split} and {units}")
    mask = torch.zeros(inputs, units)
    mask[:split, : units // 2] = 1
    mask[split:, units // 2 :] = 1
    return mask


def _draw(weight: Tensor, init: str, gain: float, generator: torch.Generator | None) -> None:
    """Initial weights ``[in, out]`` of one layer."""
    rows, columns = weight.shape
    if init == "orthogonal":
        square = torch.empty(max(rows, columns), min(rows, columns)).normal_(generator=generator)
        q, r = torch.linalg.qr(square)
        q = q * torch.sign(torch.diagonal(r))
        weight.copy_(gain * (q if rows >= columns else q.T))
        return
    bound = gain * math.sqrt(6 / (rows + columns)) if init == "xavier" else 1 / math.sqrt(rows)
    weight.uniform_(-bound, bound, generator=generator)
