"""R2D2 and DRQN written plainly: one sequence and one step after the other, with autograd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from lstm_plain import rnn_state, rnn_step
from torch import Tensor

from relive.agents.r2d2 import R2D2


def h(x: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + 1e-3 * x


def inverse(y: float) -> float:
    """By halving."""
    low, high = -1e6, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle) < y else (low, middle)
    return (low + high) / 2


class PlainR2D2:
    """The same networks as a learner's at this moment, and the same settings."""

    def __init__(self, learner: R2D2) -> None:
        self.config = learner.config
        flat: Any = learner.online.network.networks.flat
        self.online = flat[0].detach().clone().requires_grad_()
        self.target = self.online.detach().clone()
        self.optimizer = torch.optim.Adam([self.online], self.config.lr)
        self.updates = 0

    def run(self, flat: Tensor, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return rnn_step(self.config.rnn, flat, len(obs), self.config.hidden, 3, obs, state)

    def values(self, flat: Tensor, batch: Any, row: int) -> list[Tensor]:
        """Q before and after every step to learn from."""
        config, state, found = self.config, rnn_state(self.config.rnn, self.config.hidden), []
        begun = [t for t in range(config.burn_in + 1) if batch["starts"][row, t]]
        if config.stored_state and not begun:
            state = torch.tensor(batch["q_state"][row])
        for t in range(begun[0] if begun else 0, config.burn_in + int(batch["lengths"][row]) + 1):
            q, state = self.run(flat, torch.tensor(batch["obs"][row, t]).flatten(), state)
            if t < config.burn_in:
                state = state.detach()
            else:
                found.append(q)
        return found

    def update(self, batch: Any) -> list[float]:
        """One step; priorities."""
        config, losses, priorities = self.config, [], []
        total = int(batch["lengths"].sum())
        for row in range(len(batch["lengths"])):
            online, target = self.values(self.online, batch, row), self.values(self.target, batch, row)
            length, errors = int(batch["lengths"][row]), []
            for t in range(length):
                end = min(t + config.n_step, length)
                best = int((online if config.double_q else target)[end].detach().argmax())
                value = float(target[end].detach()[best])
                value = inverse(value) if config.rescale else value
                for k in reversed(range(t, end)):
                    at = config.burn_in + k
                    value = float(batch["reward"][row, at]) + float(batch["discount"][row, at]) * value
                value = h(value) if config.rescale else value
                error = value - online[t][int(batch["action"][row, config.burn_in + t]) - 2]
                size = error.abs()
                loss = torch.where(size < 1, error**2 / 2, size - 0.5)
                losses.append(loss * (float(batch["weights"][row]) if config.per_alpha else 1.0))
                errors.append(float(size.detach()))
            priorities.append(config.priority_eta * max(errors) + (1 - config.priority_eta) * float(np.mean(errors)))
        self.optimizer.zero_grad()
        (torch.stack(losses).sum() / total).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([self.online], config.max_grad_norm)
        self.optimizer.step()
        self.updates += 1
        if self.updates % config.target_update_interval == 0:
            self.target.copy_(self.target + config.tau * (self.online.detach() - self.target))
        return priorities
