"""Return distributions: categorical on a fixed support (C51), and quantiles (QR-DQN)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["projected", "quantile_huber"]


def projected(probs: Tensor, reward: Tensor, discount: Tensor, support: Tensor) -> Tensor:
    """The distribution of ``reward + discount * z`` projected onto the support: algorithm 1 of Bellemare et al. (2017).

    Args:
        probs: Probabilities of the next state's atoms, ``[B, n]``.
        reward: ``[B]``.
        discount: ``[B]``; 0 where the episode terminated.
        support: The atoms ``[n]``, evenly spaced.

    >>> projected(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0.5]), torch.ones(1), torch.tensor([-1.0, 0.0, 1.0]))
    tensor([[0.0000, 0.5000, 0.5000]])
    """
    lowest, highest, atoms = support[0], support[-1], len(support)
    shifted = (reward[:, None] + discount[:, None] * support).clamp(lowest, highest)
    place = (shifted - lowest) * ((atoms - 1) / (highest - lowest))
    place = place.clamp(0, atoms - 1)  # against rounding
    lower = place.floor()
    to_upper = place - lower
    index = lower.long()
    found = torch.zeros_like(probs).scatter_add_(1, index, probs * (1 - to_upper))
    return found.scatter_add_(1, (index + 1).clamp(max=atoms - 1), probs * to_upper)


def quantile_huber(quantiles: Tensor, targets: Tensor, kappa: float = 1.0) -> Tensor:
    """The quantile Huber loss: equation 10 of Dabney et al. (2018).

    The sum over quantiles of the mean over targets of |tau - 1{u < 0}| L(u) / kappa, with u = target - quantile and
    Huber's L.

    Args:
        quantiles: At the midpoints tau = (i + 1/2) / n, ``[B, n]``.
        targets: ``[B, m]``.

    >>> quantile_huber(torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0]]))
    tensor([1.5000])
    """
    count = quantiles.shape[1]
    tau = (torch.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count
    error = targets[:, None, :] - quantiles[:, :, None]
    loss = F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=kappa) / kappa
    weight = (tau[:, None] - (error.detach() < 0).to(error.dtype)).abs()
    return (weight * loss).mean(dim=2).sum(dim=1)
