"""Losses as pure functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "TD_LOSSES",
    "clipped_surrogate",
    "clipped_value",
    "huber",
    "masked_mean",
    "rescaled",
    "rescaled_inverse",
    "squared",
]


def squared(td_error: Tensor) -> Tensor:
    """Squared TD errors."""
    return td_error.square()


def huber(td_error: Tensor) -> Tensor:
    """The Huber loss: half the square up to 1, linear beyond.

    >>> huber(torch.tensor([0.5, -3.0])).tolist()
    [0.125, 2.5]
    """
    return F.huber_loss(td_error, torch.zeros_like(td_error), reduction="none")


def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over ``mask``; 0 if it is empty.

    >>> masked_mean(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False])).item()
    2.0
    """
    return values.mean() if mask is None else (values * mask).sum() / mask.sum().clamp(min=1)


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """min(r A, clip(r, 1 - eps, 1 + eps) A): equation 7 of PPO (Schulman et al. 2017), which is maximised.

    >>> clipped_surrogate(torch.tensor([1.5, 0.5, 0.5]), torch.tensor([1.0, 1.0, -1.0]), clip=0.2).tolist()
    [1.2000000476837158, 0.5, -0.800000011920929]
    """
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def clipped_value(
    value: Tensor, old_value: Tensor, returns: Tensor, clip: float, loss: Callable[[Tensor], Tensor]
) -> Tensor:
    """PPO's clipped value loss: the larger of the losses of the value and of old value + clip(change, -eps, eps)."""
    near = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(loss(returns - value), loss(returns - near))


_SLOPE = 1e-3


def rescaled(value: Tensor) -> Tensor:
    """The invertible value rescaling h(x) = sgn(x) (sqrt(|x| + 1) - 1) + eps x (Pohlen et al. 2018).

    >>> rescaled(torch.tensor([0.0, 3.0, -8.0]))
    tensor([ 0.0000,  1.0030, -2.0080])
    """
    return value.sign() * ((value.abs() + 1).sqrt() - 1) + _SLOPE * value


def rescaled_inverse(value: Tensor) -> Tensor:
    """The inverse of ``rescaled``.

    >>> rescaled_inverse(torch.tensor([0.0, 1.003, -2.008]))
    tensor([ 0.0000,  3.0000, -8.0000])
    """
    exact = value if value.device.type == "mps" else value.double()  # cancellation: the difference of two close roots
    root = ((1 + 4 * _SLOPE * (exact.abs() + 1 + _SLOPE)).sqrt() - 1) / (2 * _SLOPE)
    return (exact.sign() * (root.square() - 1)).to(value.dtype)


TD_LOSSES: dict[str, Callable[[Tensor], Tensor]] = {"mse": squared, "huber": huber}
"""Losses of TD errors by name."""
