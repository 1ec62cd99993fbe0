"""What rewards were like so far: to standardise them, and to bound what anything can be worth."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn

from relive.learn.running_stats import RunningMeanStd

__all__ = ["RewardStats"]


@final
class RewardStats(nn.Module):
    """Lowest and highest reward, mean and deviation: of the one reward of all, or of each agent's own.

    Args:
        columns: 1, or one an agent.
        standardize: Whether rewards are learned less their running mean, over their deviation.
    """

    low: Tensor
    high: Tensor

    def __init__(self, columns: int, *, standardize: bool) -> None:
        super().__init__()
        most = torch.finfo(torch.float32).max  # finite, so that it can be saved
        self.register_buffer("low", torch.full((columns,), most))
        self.register_buffer("high", torch.full((columns,), -most))
        self.rms = nn.ModuleList(RunningMeanStd() for _ in range(columns if standardize else 0))

    @torch.no_grad()
    def update(self, reward: Tensor, mask: Tensor) -> None:
        """Take rewards ``[S]`` in, or ``[S, A]`` of agents who are alive."""
        rewards, masks = (reward, mask) if reward.dim() == 2 else (reward[:, None], torch.ones_like(reward)[:, None])
        there = masks > 0
        self.low = torch.minimum(self.low, rewards.masked_fill(~there, math.inf).amin(dim=0))
        self.high = torch.maximum(self.high, rewards.masked_fill(~there, -math.inf).amax(dim=0))
        for rms, own, counted in zip(self.rms, rewards.T, masks.T, strict=False):
            rms.update(own, counted)  # type: ignore[operator]

    def learned(self, reward: Tensor, mask: Tensor | None = None) -> Tensor:
        """Take rewards in, and return them as they are learned from; ``mask`` says which of them count."""
        self.update(reward, torch.ones_like(reward) if mask is None else mask)
        return self.standardized(reward)

    def standardized(self, reward: Tensor) -> Tensor:
        """Rewards ``[..., columns]`` or ``[...]`` as they are learned from."""
        if not self.rms:
            return reward
        if len(self.rms) == 1 and reward.dim() == 1:
            return self.rms[0](reward, clip=math.inf)
        return torch.stack([rms(reward[..., i], clip=math.inf) for i, rms in enumerate(self.rms)], dim=-1)

    def bounds(self, gamma: float) -> tuple[Tensor, Tensor]:
        """The least and the most that anything can be worth, if rewards stay within those so far: ``[columns]``."""
        endless = 1 / (1 - gamma) if gamma < 1 else math.inf
        unseen = self.low > self.high
        low, high = (self.standardized(end.masked_fill(unseen, 0.0)[None])[0] for end in (self.low, self.high))
        least = torch.where(low < 0, low * endless, low).masked_fill(unseen, -math.inf)
        return least, torch.where(high > 0, high * endless, high).masked_fill(unseen, math.inf)
