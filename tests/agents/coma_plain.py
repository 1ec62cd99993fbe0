"""COMA written plainly: one environment, one step and one agent after the other, with autograd."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from lstm_plain import rnn_state, rnn_step
from qmix_plain import layers
from torch import Tensor

from relive.agents.coma import COMA
from relive.learn.distributions import gumbel


class PlainCOMA:
    """The same networks as a learner's at this moment, and the same settings; critics go over rollouts as a whole."""

    def __init__(self, learner: COMA, env: Any) -> None:
        self.config, self.env, self.groups, self.learner = learner.config, env, env.groups, learner
        assert self.config.minibatches == 1
        self.policies = [_copies(policy.networks.networks.flat) for policy in learner.policies]
        self.critics = [_copies(critic.networks.networks.flat) for critic in learner.critics]
        self.targets = [[flat.detach().clone() for flat in flats] for flats in self.critics]
        config = self.config
        self.optimizers = [
            (
                torch.optim.Adam(policy, config.actor_lr, eps=config.eps),
                torch.optim.Adam(critic, config.critic_lr, eps=config.eps),
            )
            for policy, critic in zip(self.policies, self.critics, strict=True)
        ]
        self.rewards: list[float] = []
        self.updates = 0
        self.states: dict[Any, Tensor] = {}

    def everyone(self) -> list[tuple[int, int]]:
        """Groups and agents."""
        return [(g, agent) for g, group in enumerate(self.groups) for agent in range(len(group))]

    def _choices(self, g: int) -> int:
        return int(self.groups[g].action_space.n)

    def _identity(self, g: int, agent: int) -> Tensor:
        count = len(self.groups[g])
        return torch.eye(count)[agent] if self.config.parameter_sharing and count > 1 else torch.zeros(0)

    def _own(self, g: int, e: int, agent: int, obs: Any) -> Tensor:
        return torch.tensor(obs[self.groups[g].key("obs")][e, agent])

    def policy(self, g: int, e: int, agent: int, obs: Any, h: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities, and the state after."""
        x = torch.cat([self._own(g, e, agent, obs), self._identity(g, agent)])
        flat = self.policies[g][0 if self.config.parameter_sharing else agent]
        if self.config.recurrent:
            logits, h = rnn_step(self.config.rnn, flat, len(x), self.config.hidden[-1], self._choices(g), x, h)
        else:
            logits = _perceptron(flat, [len(x), *self.config.hidden, self._choices(g)], x)
        if self.groups[g].avail:
            mask = torch.tensor(obs[self.groups[g].key("avail_actions")][e, agent])
            logits = logits.masked_fill(~mask, -1e9)
        return torch.log_softmax(logits, dim=0), h

    def q(self, nets: Any, g: int, e: int, agent: int, obs: Any, action: dict[Any, int]) -> Tensor:
        """Q of every action of an agent, where all others do what they did."""
        central = [torch.tensor(obs["state"][e])] if "state" in obs else [
            self._own(*who, obs) for who in [(i, e, j) for i, j in self.everyone()]
        ]  # fmt: skip
        done = []
        for i, j in self.everyone():
            one_hot = torch.eye(self._choices(i))[action[i, j]]
            done.append(torch.zeros_like(one_hot) if (i, j) == (g, agent) else one_hot)
        x = torch.cat([self._own(g, e, agent, obs), *central, *done, self._identity(g, agent)])
        flat = nets[g][0 if self.config.parameter_sharing else agent]
        return _perceptron(flat, [len(x), *self.config.hidden, self._choices(g)], x)

    def _actions(self, e: int, step: Any) -> dict[Any, int]:
        return {(g, agent): int(step["row"][self.groups[g].key("action")][e, agent]) for g, agent in self.everyone()}

    def learn(self, steps: list[dict[str, Any]], now: Any, drawn: torch.Generator) -> None:
        """One update.

        Args:
            drawn: A generator as the learner's was before it learned.
        """
        config, lanes = self.config, self.env.num_envs
        reward = {}
        for t, step in enumerate(steps):
            for e in range(lanes):
                row = step["row"]
                if self.env.shared_reward:
                    reward[t, e] = float(row["reward"][e])
                else:
                    every = np.concatenate([row[group.key("reward")][e] for group in self.groups])
                    reward[t, e] = float(every.sum() if config.reward == "sum" else every.mean())
        if config.standardize_reward:
            self.rewards += list(reward.values())
            mean, std = np.mean(self.rewards), max(np.std(self.rewards), 1e-4)
            reward = {at: (value - mean) / std for at, value in reward.items()}
        begun, after = self._states(steps)
        ahead = self._bootstrap(steps, now, after, drawn)
        y = {}
        with torch.no_grad():
            for e in range(lanes):
                for who in self.everyone():
                    target = [
                        float(
                            self.q(self.targets, who[0], e, who[1], s["obs"], self._actions(e, s))[
                                self._actions(e, s)[who]
                            ]
                        )
                        for s in steps
                    ]
                    for t in reversed(range(len(steps))):
                        y[t, e, who] = self._return(steps, t, e, who, reward, target, ahead, y)
        for _ in range(config.critic_epochs):
            self._critic_step(steps, y)
        self._policy_step(steps, begun)
        self.updates += 1
        if config.tau or self.updates % config.target_update_interval == 0:
            tau = config.tau or 1.0
            for flats, targets in zip(self.critics, self.targets, strict=True):
                for flat, target_flat in zip(flats, targets, strict=True):
                    target_flat.mul_(1 - tau).add_(flat.detach() * tau)

    def _states(self, steps: Any) -> tuple[dict[Any, Tensor], dict[Any, Tensor]]:
        """Recurrent states before the rollout, and after each of its steps."""
        zeros, after = rnn_state(self.config.rnn, self.config.hidden[-1]), {}
        begun = {}
        with torch.no_grad():
            for e in range(self.env.num_envs):
                for who in self.everyone():
                    h = begun[e, who] = self.states.get((e, who), zeros)
                    for t, step in enumerate(steps):
                        h = zeros if step["begins"][e] else h
                        h = after[t, e, who] = self.policy(who[0], e, who[1], step["obs"], h)[1]
                    ended = steps[-1]["terminated"][e] or steps[-1]["truncated"][e]
                    self.states[e, who] = zeros if ended else h
        return begun, after

    def _bootstrap(self, steps: Any, now: Any, after: Any, drawn: torch.Generator) -> dict[Any, float]:
        """V of what was seen after the last step of each lane and after truncated ones, by time, lane and agent."""
        last = len(steps) - 1
        places = [(last, e, now) for e in range(self.env.num_envs)]
        for e in range(self.env.num_envs):
            for t, step in enumerate(steps):
                if step["truncated"][e] and not step["terminated"][e]:
                    final = {key.replace("final_", ""): v for key, v in step["row"].items() if "final_" in key}
                    places.append((t, e, final))
        noise = [
            gumbel(torch.zeros(len(places), len(group), int(group.action_space.n)), drawn) for group in self.groups
        ]
        found = {}
        with torch.no_grad():
            for at, (t, e, obs) in enumerate(places):
                logs = {who: self.policy(who[0], e, who[1], obs, after[t, e, who])[0] for who in self.everyone()}
                action = {who: int((log + noise[who[0]][at, who[1]]).argmax()) for who, log in logs.items()}
                for who, log in logs.items():
                    q = self.q(self.targets, who[0], e, who[1], obs, action)
                    found[t, e, who, at >= self.env.num_envs] = float((log.exp() * q).sum())
        return found

    def _return(
        self, steps: Any, t: int, e: int, who: Any, reward: Any, target: list[float], ahead: Any, y: Any
    ) -> float:
        """TD(lambda) or n-step returns of the target critic's values."""
        config = self.config

        def next_value(at: int) -> float:
            if steps[at]["terminated"][e]:
                return 0.0
            if steps[at]["truncated"][e]:
                return ahead[at, e, who, True]
            return target[at + 1] if at + 1 < len(steps) else ahead[at, e, who, False]

        def over(at: int) -> bool:
            return bool(steps[at]["terminated"][e] or steps[at]["truncated"][e]) or at + 1 == len(steps)

        if config.n_step:
            total, weight, at = 0.0, 1.0, t
            while True:
                total += weight * reward[at, e]
                weight *= config.gamma
                if over(at) or at - t + 1 == config.n_step:
                    return total + weight * next_value(at)
                at += 1
        if over(t):
            return reward[t, e] + config.gamma * next_value(t)
        mixed = (1 - config.td_lambda) * next_value(t) + config.td_lambda * y[t + 1, e, who]
        return reward[t, e] + config.gamma * mixed

    def _critic_step(self, steps: Any, y: Any) -> None:
        for g in range(len(self.groups)):
            losses = []
            for (t, e, who), wanted in y.items():
                if who[0] == g:
                    action = self._actions(e, steps[t])
                    q = self.q(self.critics, g, e, who[1], steps[t]["obs"], action)[action[who]]
                    losses.append((wanted - q) ** 2)
            self._step(g, 1, sum(losses) / len(losses), self.critics[g])

    def _policy_step(self, steps: Any, begun: Any) -> None:
        config = self.config
        for g, group in enumerate(self.groups):
            gains, entropies = [], []
            for e in range(self.env.num_envs):
                for agent in range(len(group)):
                    h = begun[e, (g, agent)]
                    for step in steps:
                        h = torch.zeros_like(h) if step["begins"][e] else h
                        log, h = self.policy(g, e, agent, step["obs"], h)
                        if group.mask and not step["obs"][group.key("agent_mask")][e, agent]:
                            continue
                        action = self._actions(e, step)
                        with torch.no_grad():
                            q = self.q(self.critics, g, e, agent, step["obs"], action)
                            advantage = float(q[action[g, agent]] - (log.exp() * q).sum())
                        gains.append((log[action[g, agent]], advantage))
                        entropies.append(-(log.exp() * log).sum())
            scale = 1.0
            if config.normalize_advantage:
                scale = max(math.sqrt(np.mean([advantage**2 for _, advantage in gains])), 1e-8)
            loss = -sum(log * advantage / scale for log, advantage in gains) / len(gains)
            self._step(g, 0, loss - config.entropy * sum(entropies) / len(entropies), self.policies[g])

    def _step(self, g: int, which: int, loss: Any, flats: list[Tensor]) -> None:
        optimizer = self.optimizers[g][which]
        optimizer.zero_grad()
        loss.backward()
        for flat in flats:
            torch.nn.utils.clip_grad_norm_([flat], self.config.max_grad_norm or math.inf)
        optimizer.step()


def _perceptron(flat: Tensor, sizes: list[int], x: Tensor) -> Tensor:
    parts = layers(flat, list(pairwise(sizes)))
    for index, (weight, bias) in enumerate(parts):
        x = x @ weight + bias
        x = x if index == len(parts) - 1 else x.relu()
    return x


def _copies(flat: Tensor) -> list[Tensor]:
    return [row.detach().clone().requires_grad_() for row in flat]
