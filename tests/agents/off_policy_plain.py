"""TD3, DDPG and SAC of one agent written plainly: one row after the other, with autograd."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from qmix_plain import layers
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform


def perceptron(flat: Tensor, hidden: tuple[int, ...], outputs: int, x: Tensor) -> Tensor:
    """With ReLU between layers."""
    parts = layers(flat, list(pairwise([len(x), *hidden, outputs])))
    for index, (weight, bias) in enumerate(parts):
        x = x @ weight + bias
        x = x if index == len(parts) - 1 else torch.relu(x)
    return x


def own(flat: Tensor) -> list[Tensor]:
    """Networks that lie side by side, each by itself."""
    return [each.detach().clone().requires_grad_() for each in flat]


def huber(error: Tensor) -> Tensor:
    return torch.where(error.abs() < 1, error**2 / 2, error.abs() - 0.5)


class Plain:
    """What both have: critics, targets, and how actions and rows are read."""

    def __init__(self, learner: Any, env: Any) -> None:
        self.config, self.space = learner.config, env.groups[0].action_space
        self.critics = own(learner.critics.networks.flat)
        self.critics_target = [each.detach().clone() for each in self.critics]
        self.critic_optimizer = torch.optim.Adam(self.critics, self.config.critic_lr)
        self.updates = 0

    def normalized(self, action: Any) -> Tensor:
        low, high = self.space.low, self.space.high
        return torch.tensor((action - (high + low) / 2) / ((high - low) / 2), dtype=torch.float32)

    def q(self, flat: Tensor, obs: Tensor, action: Tensor | None) -> Tensor:
        """Q of an action, or of every choice."""
        x = obs if action is None else torch.cat([obs, action])
        return perceptron(flat, self.config.hidden, 1 if action is not None else int(self.space.n), x)

    def rows(self, batch: Any) -> list[dict[str, Any]]:
        names = ("obs", "next_obs", "action", "reward", "discount", "weights")
        found = []
        for index in range(len(batch["reward"])):
            row = {name: batch[name][index] for name in names if name in batch}
            row["obs"], row["next_obs"] = torch.tensor(row["obs"]), torch.tensor(row["next_obs"])
            found.append(row)
        return found

    def critic_step(self, rows: list[dict[str, Any]], values: list[float]) -> np.ndarray[Any, Any]:
        """Towards targets of all rows; each critic's errors."""
        config, losses, errors = self.config, [], []
        for flat in self.critics:
            mine = []
            for row, value in zip(rows, values, strict=True):
                target = float(row["reward"]) + float(row["discount"]) * value
                if hasattr(self.space, "n"):
                    q = self.q(flat, row["obs"], None)[int(row["action"]) - int(self.space.start)]
                else:
                    q = self.q(flat, row["obs"], self.normalized(row["action"]))[0]
                loss = huber(target - q) if config.td_loss == "huber" else (target - q) ** 2
                losses.append(loss * (float(row["weights"]) if config.per_alpha else 1.0) / len(rows))
                mine.append(float((target - q).detach()))
            errors.append(mine)
        step(self.critic_optimizer, torch.stack(losses).sum(), self.critics, config.max_grad_norm)
        return np.array(errors)

    def follow(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        for target, source in zip(targets, sources, strict=True):
            target.copy_(target + self.config.tau * (source.detach() - target))


def step(optimizer: Any, loss: Tensor, parameters: list[Tensor], max_grad_norm: float) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if max_grad_norm:
        torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    optimizer.step()


class PlainTD3(Plain):
    """Deterministic."""

    def __init__(self, learner: Any, env: Any) -> None:
        super().__init__(learner, env)
        self.policy = own(learner.policy.network.flat)
        self.policy_target = [self.policy[0].detach().clone()]
        self.policy_optimizer = torch.optim.Adam(self.policy, self.config.actor_lr)

    def act(self, flat: Tensor, obs: Tensor) -> Tensor:
        return torch.tanh(perceptron(flat, self.config.hidden, self.space.shape[0], obs))

    def update(self, batch: Any, generator: torch.Generator) -> np.ndarray[Any, Any]:
        """One step; errors ``[N, B]``."""
        config, rows, values = self.config, self.rows(batch), []
        noise = torch.randn(len(rows), self.space.shape[0], generator=generator) if config.target_policy_noise else None
        with torch.no_grad():
            for index, row in enumerate(rows):
                action = self.act(self.policy_target[0], row["next_obs"])
                if noise is not None:
                    most = config.target_noise_clip
                    action = (action + (config.target_policy_noise * noise[index]).clamp(-most, most)).clamp(-1, 1)
                values.append(min(float(self.q(flat, row["next_obs"], action)) for flat in self.critics_target))
        errors = self.critic_step(rows, values)
        self.updates += 1
        if self.updates % config.policy_delay == 0:
            first = self.critics[0].detach()
            gains = [self.q(first, row["obs"], self.act(self.policy[0], row["obs"]))[0] for row in rows]
            step(self.policy_optimizer, -torch.stack(gains).mean(), self.policy, config.max_grad_norm)
            self.follow(self.critics_target, self.critics)
            self.follow(self.policy_target, self.policy)
        return errors


class PlainSAC(Plain):
    """Stochastic, with a temperature."""

    def __init__(self, learner: Any, env: Any) -> None:
        super().__init__(learner, env)
        self.policy = own(learner.policy.policy.networks.flat)
        self.policy_optimizer = torch.optim.Adam(self.policy, self.config.actor_lr)
        self.log_alpha = learner.temperature.log_alpha.detach().clone().requires_grad_()
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], self.config.alpha_lr)

    def distribution(self, obs: Tensor) -> Any:
        discrete = hasattr(self.space, "n")
        outputs = int(self.space.n) if discrete else 2 * self.space.shape[0]
        found = perceptron(self.policy[0], self.config.hidden, outputs, obs)
        if discrete:
            return Categorical(logits=found)
        mean, log_std = found.chunk(2)
        normal = Independent(Normal(mean, log_std.clamp(-5, 2).exp()), 1)
        return TransformedDistribution(normal, [TanhTransform()]), mean, log_std.clamp(-5, 2)

    def outcomes(self, obs: Tensor, noise: Any) -> list[tuple[Any, Any, Any]]:
        """What may be done, how likely it counts, and the log of that."""
        if noise is None:
            found = self.distribution(obs)
            return [(None, found.probs[choice], found.logits[choice]) for choice in range(int(self.space.n))]
        squashed, mean, log_std = self.distribution(obs)
        action = torch.tanh(mean + log_std.exp() * noise)
        return [(action, torch.ones(()), squashed.log_prob(action))]

    def lowest(self, critics: list[Tensor], obs: Tensor, action: Any, choice: int) -> Tensor:
        return torch.stack([self.q(flat, obs, action)[choice if action is None else 0] for flat in critics]).min()

    def update(self, batch: Any, generator: torch.Generator) -> np.ndarray[Any, Any]:
        """One step; errors ``[2, B]``."""
        config, rows, values = self.config, self.rows(batch), []
        drawn = not hasattr(self.space, "n")
        shape = (len(rows), self.space.shape[0] if drawn else 0)
        alpha = float(self.log_alpha.detach().exp())
        noise = torch.empty(shape).normal_(generator=generator) if drawn else None
        with torch.no_grad():
            for index, row in enumerate(rows):
                value = 0.0
                outcomes = self.outcomes(row["next_obs"], None if noise is None else noise[index])
                for choice, (action, weight, log_prob) in enumerate(outcomes):
                    q = self.lowest(self.critics_target, row["next_obs"], action, choice)
                    value += float(weight * (q - alpha * log_prob))
                values.append(value)
        errors = self.critic_step(rows, values)
        noise = torch.empty(shape).normal_(generator=generator) if drawn else None
        losses, entropies = [], []
        critics = [flat.detach() for flat in self.critics]
        for index, row in enumerate(rows):
            loss, entropy = torch.zeros(()), torch.zeros(())
            outcomes = self.outcomes(row["obs"], None if noise is None else noise[index])
            for choice, (action, weight, log_prob) in enumerate(outcomes):
                q = self.lowest(critics, row["obs"], action, choice)
                loss = loss + weight * (alpha * log_prob - q)
                entropy = entropy - weight * log_prob
            losses.append(loss)
            entropies.append(float(entropy.detach()))
        step(self.policy_optimizer, torch.stack(losses).mean(), self.policy, config.max_grad_norm)
        wanted = -self.space.shape[0] if drawn else config.target_entropy * math.log(int(self.space.n))
        if config.alpha_lr:
            step(self.alpha_optimizer, self.log_alpha.sum() * (float(np.mean(entropies)) - wanted), [], 0.0)
        self.follow(self.critics_target, self.critics)
        return errors
