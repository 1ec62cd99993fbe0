"""Optimisers, learning rates and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam, Optimizer, RMSprop

from relive.learn.networks import Copies, FlatNetworks
from relive.learn.policies import Encoders

__all__ = [
    "clip_grad_norm_each_",
    "frozen",
    "load_optimizer",
    "make_optimizer",
    "optimizer_state",
    "per_network",
    "set_lr",
]


def make_optimizer(name: str, parameters: Iterable[Tensor], lr: float, eps: float = 0.0) -> Optimizer:
    """``"adam"`` or ``"rmsprop"`` over parameters.

    Args:
        eps: epsilon in the denominator; 0: 1e-8 for Adam, 1e-5 for RMSprop.
    """
    every = list(parameters)
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in every)
    if name == "adam":
        return Adam(every, lr=lr, eps=eps or 1e-8, fused=fused or None)
    return RMSprop(every, lr=lr, alpha=0.99, eps=eps or 1e-5)


def set_lr(optimizer: Optimizer, lr: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def per_network(module: nn.Module) -> list[Tensor | list[Tensor]]:
    """The parameters of a module, network by network: tensors ``[N, P]`` of stacked networks, a row each, and lists of
    one network each. What belongs to no network, such as a learned log_std, comes last.
    """
    found: list[Tensor | list[Tensor]] = []
    for part in module.modules():
        if isinstance(part, FlatNetworks):
            found.append(part.flat)
        elif isinstance(part, (Copies, Encoders)):
            found += [list(network.parameters()) for network in part.networks]
    known = {id(tensor) for each in found for tensor in ([each] if isinstance(each, Tensor) else each)}
    found.append([parameter for parameter in module.parameters() if id(parameter) not in known])
    return [each for each in found if len(each)]


@torch.no_grad()
def clip_grad_norm_each_(networks: Iterable[Tensor | list[Tensor]], max_norm: float) -> Tensor:
    """Clip each network's gradient norm separately; returns the mean norm before clipping.

    Args:
        networks: From ``per_network``.
        max_norm: 0: no clipping.
    """
    norms = []
    for network in networks:
        if isinstance(network, list):
            norms.append(_clip_whole(network, max_norm).reshape(1))
        elif network.grad is not None:
            norms.append(torch.linalg.vector_norm(network.grad.flatten(1), dim=1))
            if max_norm:
                network.grad.renorm_(2, 0, max_norm)
    return torch.cat(norms).mean() if norms else torch.zeros(())


def _clip_whole(network: list[Tensor], max_norm: float) -> Tensor:
    """``clip_grad_norm_``, without its bookkeeping where there is one tensor: a third of a small network's step."""
    if len(network) > 1 or network[0].grad is None:
        return clip_grad_norm_(network, max_norm or math.inf)
    grad = network[0].grad
    norm = torch.linalg.vector_norm(grad)
    if max_norm:
        grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def optimizer_state(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's moments and step counts, by parameter number and name."""
    return {
        f"{index}.{name}": torch.as_tensor(value).clone()
        for index, kept in optimizer.state_dict()["state"].items()
        for name, value in kept.items()
        if value is not None
    }


def load_optimizer(optimizer: Optimizer, state: Mapping[str, Tensor]) -> None:
    """Restore an ``optimizer_state``."""
    kept: dict[int, dict[str, Any]] = {}
    for key, value in state.items():
        index, _, name = key.partition(".")
        kept.setdefault(int(index), {})[name] = value.clone()
    optimizer.load_state_dict({"state": kept, "param_groups": optimizer.state_dict()["param_groups"]})


@contextmanager
def frozen(parameters: Sequence[Tensor]) -> Iterator[None]:
    """A context in which parameters do not require gradients, so that none is computed in vain."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
