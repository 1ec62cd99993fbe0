"""MASAC written plainly: one row and one agent after the other, with autograd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from coma_plain import _copies, _perceptron
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from relive.agents.masac import MASAC
from relive.learn.distributions import gumbel


class PlainMASAC:
    """The same networks as a learner's at this moment, and the same settings."""

    def __init__(self, learner: MASAC, env: Any) -> None:
        self.config, self.env, self.groups = learner.config, env, env.groups
        config = self.config
        self.policies = [_copies(policy.networks.networks.flat) for policy in learner.policies]
        self.critics = [[_copies(c.networks.networks.flat) for c in twins] for twins in learner.critics]
        self.targets = [[[flat.detach().clone() for flat in flats] for flats in twins] for twins in self.critics]
        self.log_alphas = [each.log_alpha.detach().clone().requires_grad_() for each in learner.temperatures]
        self.optimizers = [
            (
                torch.optim.Adam(policy, config.actor_lr),
                torch.optim.Adam([flat for flats in critics for flat in flats], config.critic_lr),
                torch.optim.Adam([alpha], config.alpha_lr),
            )
            for policy, critics, alpha in zip(self.policies, self.critics, self.log_alphas, strict=True)
        ]

    def everyone(self) -> list[tuple[int, int]]:
        """Groups and agents."""
        return [(g, agent) for g, group in enumerate(self.groups) for agent in range(len(group))]

    def _fields(self, g: int, batch: Any) -> Any:
        return batch[self.groups[g].name] if self.groups[g].name else batch

    def _discrete(self, g: int) -> bool:
        return hasattr(self.groups[g].action_space, "n")

    def _width(self, g: int) -> int:
        space = self.groups[g].action_space
        return int(space.n) if self._discrete(g) else int(np.prod(space.shape))

    def _identity(self, g: int, agent: int) -> Tensor:
        count = len(self.groups[g])
        return torch.eye(count)[agent] if self.config.parameter_sharing and count > 1 else torch.zeros(0)

    def _network(self, agent: int) -> int:
        return 0 if self.config.parameter_sharing else agent

    def distribution(self, g: int, agent: int, row: int, batch: Any, prefix: str) -> Any:
        """Of an agent's actions."""
        fields = self._fields(g, batch)
        x = torch.cat([torch.tensor(fields[f"{prefix}obs"][row, agent]), self._identity(g, agent)])
        outputs = self._width(g) * (1 if self._discrete(g) else 2)
        found = _perceptron(self.policies[g][self._network(agent)], [len(x), *self.config.hidden, outputs], x)
        if not self._discrete(g):
            mean, log_std = found.chunk(2)
            normal = Independent(Normal(mean, log_std.clamp(-5, 2).exp()), 1)
            return TransformedDistribution(normal, [TanhTransform(cache_size=1)])
        if self.groups[g].avail:
            found = found.masked_fill(~torch.tensor(fields[f"{prefix}avail_actions"][row, agent]), -1e9)
        return Categorical(logits=found)

    def q(self, flats: Any, g: int, agent: int, row: int, batch: Any, prefix: str, action: dict[Any, Tensor]) -> Tensor:
        """Q of every choice ``[n]``, or of a continuous action ``[1]``."""
        parts = [torch.tensor(self._fields(g, batch)[f"{prefix}obs"][row, agent])]
        if self.config.critic != "own":
            if "state" in batch:
                parts.append(torch.tensor(batch[f"{prefix}state"][row]))
            else:
                parts += [torch.tensor(self._fields(i, batch)[f"{prefix}obs"][row, j]) for i, j in self.everyone()]
            parts += [torch.zeros_like(a) if who == (g, agent) else a for who, a in action.items()]
        if not self._discrete(g):
            parts.append(action[g, agent])
        x = torch.cat([*parts, self._identity(g, agent)])
        outputs = self._width(g) if self._discrete(g) else 1
        return _perceptron(flats[self._network(agent)], [len(x), *self.config.hidden, outputs], x)

    def _noise(self, g: int, rows: int, drawn: torch.Generator) -> Tensor:
        shape = (rows, len(self.groups[g]), self._width(g))
        if self._discrete(g):
            return gumbel(torch.zeros(shape), drawn)
        return torch.empty(shape).normal_(generator=drawn)

    def _draw(self, g: int, distribution: Any, noise: Tensor) -> Tensor:
        """A normalised action, by noise that was drawn."""
        if self._discrete(g):
            return torch.eye(self._width(g))[(distribution.logits + noise).argmax()]
        normal = distribution.base_dist.base_dist
        return torch.tanh(normal.loc + normal.scale * noise)

    def _done(self, row: int, batch: Any) -> dict[Any, Tensor]:
        found = {}
        for g, agent in self.everyone():
            action, space = self._fields(g, batch)["action"][row, agent], self.groups[g].action_space
            if self._discrete(g):
                found[g, agent] = torch.eye(self._width(g))[int(action) - int(space.start)]
            else:
                found[g, agent] = torch.tensor((action - space.low) / (space.high - space.low) * 2 - 1)
        return found

    def _value(self, g: int, q: Tensor, distribution: Any, action: Tensor, alpha: float) -> Tensor:
        if self._discrete(g):
            return sum(p * (each - alpha * log) for p, each, log in zip(
                distribution.probs, q, distribution.logits, strict=True
            ) if p > 0)  # fmt: skip
        return q[0] - alpha * distribution.log_prob(action)

    def update(self, batch: Any, drawn: torch.Generator) -> None:
        """One update.

        Args:
            drawn: A generator as the learner's was before.
        """
        config, rows = self.config, len(batch["discount"])
        shared = self.env.shared_reward
        following = {}
        with torch.no_grad():
            for g in range(len(self.groups)):
                noise = self._noise(g, rows, drawn)
                for agent in range(len(self.groups[g])):
                    for row in range(rows):
                        distribution = self.distribution(g, agent, row, batch, "next_")
                        following[row, (g, agent)] = (distribution, self._draw(g, distribution, noise[row, agent]))
        for g, group in enumerate(self.groups):
            fields, alpha = self._fields(g, batch), float(self.log_alphas[g].detach().exp())
            losses, count = [], 0.0
            for row in range(rows):
                next_action = {who: following[row, who][1] for who in self.everyone()}
                done = self._done(row, batch)
                for agent in range(len(group)):
                    if group.mask and not shared and not fields["agent_mask"][row, agent]:
                        continue
                    count += 1
                    with torch.no_grad():
                        q = torch.minimum(
                            *(self.q(t, g, agent, row, batch, "next_", next_action) for t in self.targets[g])
                        )
                        value = self._value(g, q, *following[row, (g, agent)], alpha)
                        if group.mask and not shared:
                            value = value * float(fields["next_agent_mask"][row, agent])
                        reward = batch["reward"][row] if shared else fields["reward"][row, agent]
                        target = float(reward) + float(batch["discount"][row]) * float(value)
                    weight = float(batch["weights"][row]) if config.per_alpha else 1.0
                    for flats in self.critics[g]:
                        q = self.q(flats, g, agent, row, batch, "", done)
                        chosen = (q * done[g, agent]).sum() if self._discrete(g) else q[0]
                        losses.append(weight * (target - chosen) ** 2)
            flats = [flat for each in self.critics[g] for flat in each]
            self._step(g, 1, sum(losses) / count, flats)
            self._actor_step(g, batch, rows, drawn, alpha)
        for online, targets in zip(self.critics, self.targets, strict=True):
            for twin, follower in zip(online, targets, strict=True):
                for flat, target_flat in zip(twin, follower, strict=True):
                    target_flat.mul_(1 - config.tau).add_(flat.detach() * config.tau)

    def _actor_step(self, g: int, batch: Any, rows: int, drawn: torch.Generator, alpha: float) -> None:
        config, group, fields = self.config, self.groups[g], self._fields(g, batch)
        noise = self._noise(g, rows, drawn)
        gains, surplus = [], []
        for row in range(rows):
            for agent in range(len(group)):
                if group.mask and not fields["agent_mask"][row, agent]:
                    continue
                distribution = self.distribution(g, agent, row, batch, "")
                action = {**self._done(row, batch), (g, agent): self._draw(g, distribution, noise[row, agent])}
                q = torch.minimum(*(self.q(flats, g, agent, row, batch, "", action) for flats in self.critics[g]))
                gains.append(self._value(g, q, distribution, action[g, agent], alpha))
                entropy = float(self._value(g, torch.zeros_like(q), distribution, action[g, agent], 1.0).detach())
                wanted = -float(self._width(g))
                if self._discrete(g):
                    free = fields["avail_actions"][row, agent].sum() if group.avail else self._width(g)
                    wanted = config.target_entropy * math.log(free)
                surplus.append(entropy - wanted)
        self._step(g, 0, -sum(gains) / len(gains), self.policies[g])
        if config.alpha_lr:
            loss = (self.log_alphas[g] * float(np.mean(surplus))).sum()
            self._step(g, 2, loss, [self.log_alphas[g]])

    def _step(self, g: int, which: int, loss: Any, flats: list[Tensor]) -> None:
        optimizer = self.optimizers[g][which]
        optimizer.zero_grad()
        loss.backward()
        for flat in flats:
            torch.nn.utils.clip_grad_norm_([flat], self.config.max_grad_norm or math.inf)
        optimizer.step()
