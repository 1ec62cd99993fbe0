"""Return targets of packed episodes, on any device, detached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relive.learn.sequences import PackedEpisodes
from relive.memory import targets

__all__ = ["n_step_return", "td_lambda_return"]


@torch.no_grad()
def td_lambda_return(
    packed: PackedEpisodes, reward: Tensor, next_value: Tensor, terminated: Tensor, *, gamma: float, lam: float
) -> Tensor:
    """TD(lambda) returns of steps ``[S, ...]``: G = r + gamma ((1 - lambda) next_value + lambda G').

    Args:
        terminated: Where the episode terminated, so that nothing is bootstrapped.
    """
    if reward.device.type == "cpu":
        return _native(packed, targets.td_lambda, reward, next_value, terminated, gamma=gamma, lam=lam)
    rewards, values, ends, mask = _grids(packed, reward, next_value, terminated)
    returns, after = torch.empty_like(values), values[-1]
    for t in reversed(range(len(values))):
        going = mask[t + 1] if t + 1 < len(mask) else torch.zeros_like(mask[t])
        ahead = torch.where(going, (1 - lam) * values[t] + lam * after, values[t])
        after = returns[t] = rewards[t] + gamma * ahead * ~ends[t]
    return _steps(packed, returns)


@torch.no_grad()
def n_step_return(
    packed: PackedEpisodes, reward: Tensor, next_value: Tensor, terminated: Tensor, *, gamma: float, n: int
) -> Tensor:
    """n-step returns of steps ``[S, ...]``: up to ``n`` discounted rewards and the discounted value after them."""
    if reward.device.type == "cpu":
        return _native(packed, targets.n_step_returns, reward, next_value, terminated, gamma=gamma, n=n)
    rewards, values, ends, mask = _grids(packed, reward, next_value, terminated)
    returns = rewards + gamma * values * ~ends
    for _ in range(n - 1):  # each pass adds one step, where the episode has one
        longer = rewards[:-1] + gamma * returns[1:] * ~ends[:-1]
        returns = torch.cat([torch.where(mask[1:], longer, returns[:-1]), returns[-1:]])
    return _steps(packed, returns)


def _native(packed: PackedEpisodes, scan: Callable[..., Any], *parts: Tensor, **options: Any) -> Tensor:
    """Computed by the memory's scans; an episode that did not terminate is truncated at its last step."""
    shape = (len(packed.batch_sizes) - 1, int(packed.batch_sizes[0]))
    at = (packed.time, packed.column)

    def grid(values: Any) -> Any:
        whole = np.zeros((*shape, *values.shape[1:]), values.dtype)
        whole[at] = values
        return whole

    reward, next_value, ends = (grid(part.numpy()) for part in parts)
    mask = grid(np.ones(parts[0].shape, bool))
    last = mask.copy()
    last[:-1] &= ~mask[1:]
    found = scan(reward, next_value, terminated=ends, truncated=last, mask=mask, **options)
    return torch.from_numpy(found[at])


def _grids(packed: PackedEpisodes, *parts: Tensor) -> tuple[Tensor, ...]:
    """Steps ``[S, ...]`` padded to ``[T, B, ...]``, and the mask of real steps."""
    shape = (len(packed.batch_sizes) - 1, int(packed.batch_sizes[0]))
    mask = torch.ones_like(parts[0], dtype=torch.bool)
    return tuple(_grid(packed, shape, part) for part in (*parts, mask))


def _grid(packed: PackedEpisodes, shape: tuple[int, int], values: Tensor) -> Tensor:
    whole = values.new_zeros(*shape, *values.shape[1:])
    whole[_places(packed, values)] = values
    return whole


def _steps(packed: PackedEpisodes, grid: Tensor) -> Tensor:
    return grid[_places(packed, grid)]


def _places(packed: PackedEpisodes, like: Tensor) -> tuple[Tensor, Tensor]:
    time, column = (torch.from_numpy(part).to(like.device) for part in (packed.time, packed.column))
    return time, column
