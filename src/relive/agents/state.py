"""What learners have in common: where their networks are, how they take a step, and what is saved of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from relive.agents.interface import Weights
from relive.learn.optimizers import (
    clip_grad_norm_each_,
    load_optimizer,
    make_optimizer,
    optimizer_state,
    per_network,
    set_lr,
)
from relive.learn.polyak import Polyak
from relive.types import Array

__all__ = ["NetworkActor", "NetworkLearner", "Networks", "Trained", "as_floats", "below", "load_newer", "mean_metrics"]


@final
class Trained:
    """A module that learns: its optimiser, and the target that follows it if there is one.

    Args:
        clip_whole: Whether its gradient norm is clipped as a whole, and not of every network in it by itself.
    """

    def __init__(
        self, module: nn.Module, target: nn.Module | None, optimizer: Optimizer, lr: float, *, clip_whole: bool = False
    ) -> None:
        self.optimizer, self._lr = optimizer, lr
        self.parameters = list(module.parameters())
        self._polyak = None if target is None else Polyak(target, module)
        whole: list[Tensor | list[Tensor]] = [[*self.parameters]]
        self._networks = whole if clip_whole else per_network(module)

    def step(self, loss: Tensor, *, max_grad_norm: float, lr_scale: float = 1.0) -> Tensor:
        """Down the gradient of a loss, whose norm is clipped, network by network or whole. Returns the mean norm."""
        set_lr(self.optimizer, self._lr * lr_scale)
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        norm = clip_grad_norm_each_(self._networks, max_grad_norm)
        self.optimizer.step()
        return norm

    def update_target(self, tau: float) -> None:
        """A soft update of the target."""
        if self._polyak is not None:
            self._polyak.update(tau)


class Stateful(Protocol):
    """A part of a learner that is saved with it."""

    def state_dict(self) -> dict[str, Tensor]:
        """Its state, under names of its own."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a learner's state, which has its own."""


@final
class Networks:
    """Networks by name, their optimisers, a generator, and counts of updates and of steps learned from.

    Args:
        device: Of all of them.
        seed: Of the networks' weights and of the generator.
    """

    def __init__(self, device: torch.device | str, seed: int) -> None:
        self.device = torch.device(device)
        self.modules = nn.ModuleDict()
        self.optimizers: dict[str, Optimizer] = {}
        # Nothing is drawn on the device "meta", but torch wants a generator of another.
        place = "cpu" if self.device.type == "meta" else self.device
        self.generator = torch.Generator(place).manual_seed(seed)
        self.updates, self.steps, self._version, self._seed = 0, 0, 0, seed
        self._kept: list[Stateful] = []

    @contextmanager
    def seeded(self) -> Iterator[torch.Generator]:
        """The generator of new networks' weights; torch's own draws are from the same seed meanwhile."""
        with torch.random.fork_rng(devices=[]):
            yield torch.default_generator.manual_seed(self._seed)

    def add(self, name: str, module: nn.Module) -> None:
        """Take a module in, which moves to the device."""
        if self.device.type == "mps":  # which has no float64
            module.float()
        self.modules[name] = module.to(self.device)

    def keep(self, part: Stateful) -> None:
        """Save and restore a part's state with that of the networks."""
        self._kept.append(part)

    def optimize(
        self,
        name: str,
        module: nn.Module,
        target: nn.Module | None,
        lr: float,
        eps: float = 0.0,
        *,
        clip_whole: bool = False,
    ) -> Trained:
        """An optimiser (Adam) of a module that has been taken in, or is part of one.

        Args:
            clip_whole: Whether its gradient norm is clipped as a whole, and not of every network in it by itself.
        """
        made = Trained(module, target, make_optimizer("adam", module.parameters(), lr, eps), lr, clip_whole=clip_whole)
        self.optimizers[name] = made.optimizer
        return made

    def count_update(self, steps: int = 0) -> None:
        """Count an update from so many steps; what is published from now on is a new version."""
        self.updates, self.steps, self._version = self.updates + 1, self.steps + steps, self._version + 1

    def publish(self, module: nn.Module) -> Weights:
        """A module's parameters and buffers, for actors."""
        tensors = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers())
        return Weights(self._version, {name: value.detach() for name, value in tensors.items()})

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as copies on the CPU."""
        kept = {f"networks.{name}": value for name, value in self.modules.state_dict().items()}
        for name, optimizer in self.optimizers.items():
            kept |= {f"optimizers.{name}/{part}": value for part, value in optimizer_state(optimizer).items()}
        kept["generator"] = self.generator.get_state()
        kept |= {"updates": torch.tensor(self.updates), "steps": torch.tensor(self.steps)}
        for part in self._kept:
            kept |= part.state_dict()
        return {name: value.detach().cpu().clone() for name, value in kept.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.modules.load_state_dict(below(state, "networks."))
        for name, optimizer in self.optimizers.items():
            load_optimizer(optimizer, below(state, f"optimizers.{name}/"))
        self.generator.set_state(state["generator"])
        self.updates, self.steps = int(state["updates"]), int(state["steps"])
        for part in self._kept:
            part.load_state_dict(state)
        self._version += 1


class NetworkLearner:
    """What learners with ``Networks`` have in common: the weights that actors take, and what is saved.

    A learner inherits it and sets ``networks`` and ``acting``.
    """

    networks: Networks
    acting: nn.Module
    """The networks that actors act with."""

    def weights(self) -> Weights:
        """The networks that actors act with, as they are now."""
        return self.networks.publish(self.acting)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that learning depends on."""
        return self.networks.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.networks.load_state_dict(state)


class NetworkActor:
    """What actors have in common: the networks they act with, their randomness, and states of open episodes.

    Args:
        acting: Networks, which become this actor's own.
        explore: Whether to explore.
        kept: What is saved with it besides.
    """

    def __init__(
        self, acting: nn.Module, device: torch.device, *, explore: bool, seed: int, kept: Sequence[Stateful] = ()
    ) -> None:
        self._acting, self._device, self._explore, self._kept = acting, device, explore, tuple(kept)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._states: dict[str, Tensor] = {}
        """Recurrent states and the like before the next step, ``[E, ...]``; 0 as episodes begin."""
        self._version = -1

    def reset(self, mask: Array) -> None:
        """Reset what is kept of an episode where it ended, ``[E]``."""
        if self._states:
            ended = self._ended(mask)
            for name, state in self._states.items():
                self._states[name] = state.masked_fill(ended.view(-1, *[1] * (state.ndim - 1)), 0)

    def load(self, weights: Weights) -> None:
        """Take published weights, unless they are the ones it has."""
        self._version = load_newer(self._acting, weights, self._version)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        states = {name: state.cpu().clone() for name, state in self._states.items()}
        found = {"generator": self._generator.get_state(), **states}
        for part in self._kept:
            found |= part.state_dict()
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._generator.set_state(state["generator"])
        self._states = {name: state[name].to(self._device, copy=True) for name in self._states}
        for part in self._kept:
            part.load_state_dict(state)

    def _ended(self, mask: Any) -> Tensor:
        return torch.from_numpy(np.asarray(mask, bool)).to(self._device)


def as_floats(metrics: Mapping[str, Tensor]) -> dict[str, float]:
    """Metrics as numbers: one transfer from the device for all."""
    return dict(zip(metrics, torch.stack(list(metrics.values())).tolist(), strict=True))


def mean_metrics(found: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    """Means of the metrics of several steps, which have the same names."""
    means = torch.stack([torch.stack(list(metrics.values())) for metrics in found]).mean(dim=0).tolist()
    return dict(zip(found[0], means, strict=True))


def below(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """What is kept under names with a prefix, by the rest of these names."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


@torch.no_grad()
def load_newer(module: nn.Module, weights: Weights, version: int) -> int:
    """Copy published weights into a module of the same make, unless it has that version; the version it has then."""
    if weights.version != version:
        for name, value in (*module.named_parameters(), *module.named_buffers()):
            value.copy_(weights.tensors[name])
    return weights.version
