"""PPO of one agent written plainly: one environment and one step after the other, with autograd."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from lstm_plain import rnn_state, rnn_step
from qmix_plain import layers
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from relive.agents.ppo import PPO


class PlainPPO:
    """The same networks as a learner's at this moment, and the same settings."""

    def __init__(self, learner: PPO, env: Any) -> None:
        self.config, self.env, self.space = learner.config, env, env.groups[0].action_space
        network = copy.deepcopy(learner.network)
        self.policy = network.policy.networks.flat[0].detach().clone().requires_grad_()
        self.critic = network.critic.networks.flat[0].detach().clone().requires_grad_() if network.critic else None  # type: ignore[index, union-attr]
        self.log_std = network.head.log_std[0].detach().clone().requires_grad_() if network.head.raw_width else None  # type: ignore[index]
        every = [self.policy, self.critic, self.log_std]
        self.parameters: list[Tensor] = [each for each in every if each is not None]
        self.optimizer = torch.optim.Adam(self.parameters, self.config.lr, eps=self.config.eps)
        self.returns: list[float] = []
        self.rewards: list[float] = []
        self.seen: list[Any] = []

    # ---- networks, one observation at a time -----------------------------------------------------------------------

    def observed(self, obs: Any) -> Tensor:
        """As networks read it."""
        flat = torch.tensor(np.asarray(obs, np.float32)).flatten()
        if not self.config.normalize_obs or not self.seen:
            return flat
        rows = torch.tensor(np.array(self.seen), dtype=torch.float64)
        mean, std = rows.mean(dim=0), rows.std(dim=0, correction=0).clamp(min=1e-4)
        return ((flat - mean) / std).clamp(-10, 10).float()

    def run(self, flat: Tensor, x: Tensor, outputs: int, h: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """A network's outputs, and its next state."""
        if self.config.recurrent:
            assert h is not None
            return rnn_step(self.config.rnn, flat, len(x), self.config.hidden[-1], outputs, x, h)
        parts = layers(flat, list(pairwise([len(x), *self.config.hidden, outputs])))
        for index, (weight, bias) in enumerate(parts):
            x = x @ weight + bias
            x = x if index == len(parts) - 1 else torch.tanh(x)
        return x, None

    def distribution(self, obs: Tensor, h: Tensor | None) -> tuple[Any, Tensor | None]:
        """Of actions, by torch's own classes."""
        if self.log_std is not None:
            mean, h = self.run(self.policy, obs, len(self.log_std), h)
            return Independent(Normal(mean, self.log_std.exp()), 1), h
        if hasattr(self.space, "nvec"):
            logits, h = self.run(self.policy, obs, int(self.space.nvec.sum()), h)
            return [Categorical(logits=part) for part in logits.split(self.space.nvec.tolist())], h
        logits, h = self.run(self.policy, obs, int(self.space.n), h)
        return Categorical(logits=logits), h

    def log_prob(self, distribution: Any, step: Any, e: int) -> tuple[Tensor, Tensor]:
        """Of what was done, and the entropy."""
        if self.log_std is not None:
            return distribution.log_prob(torch.tensor(step["extras"]["raw_action"][e])), distribution.entropy()
        action = step["row"]["action"][e]
        if isinstance(distribution, list):
            each = [d.log_prob(torch.tensor(int(a))) for d, a in zip(distribution, action, strict=True)]
            return sum(each[1:], each[0]), sum((d.entropy() for d in distribution), torch.zeros(()))
        choice = int(action) - int(self.space.start)
        return distribution.log_prob(torch.tensor(choice)), distribution.entropy()

    def statistics(self) -> tuple[float, float]:
        """Mean and deviation of all returns so far."""
        if self.config.value_norm == "none" or not self.returns:
            return 0.0, 1.0
        return float(np.mean(self.returns)), max(float(np.std(self.returns)), 1e-4)

    def value(self, obs: Any, h: Any) -> tuple[float, Any]:
        """As rewards count."""
        if self.critic is None:
            return 0.0, h
        mean, std = self.statistics()
        with torch.no_grad():
            found, h = self.run(self.critic, self.observed(obs), 1, h)
        return float(found[0]) * std + mean, h

    # ---- an update -------------------------------------------------------------------------------------------------

    def learn(self, steps: list[dict[str, Any]], last: Any) -> None:
        """From a rollout, as a whole in every epoch."""
        config, count = self.config, self.env.num_envs
        if config.normalize_reward:
            self.rewards += [float(r) for step in steps for r in step["row"]["reward"]]
        size = max(float(np.sqrt(np.mean(np.square(self.rewards)))), 1e-4) if self.rewards else 1.0
        advantages, returns = np.zeros((len(steps), count)), np.zeros((len(steps), count))
        for e in range(count):
            ahead = 0.0
            for t in reversed(range(len(steps))):
                step = steps[t]
                over, cut = bool(step["terminated"][e]), bool(step["truncated"][e])
                now = float(step["extras"]["value"][e])
                final = t == len(steps) - 1 or over or cut
                if over or (cut and not config.bootstrap_on_truncation):
                    following = 0.0
                elif final:
                    seen = step["row"]["final_obs"][e] if cut else last["obs"][e]
                    h = None
                    if config.recurrent:
                        h = torch.tensor(step["extras"]["value_state"][e])
                        _, h = self.value(step["obs"]["obs"][e], h)
                    following, _ = self.value(seen, h)
                else:
                    following = float(steps[t + 1]["extras"]["value"][e])
                reward = float(step["row"]["reward"][e])
                reward = min(max(reward / size, -10.0), 10.0) if config.normalize_reward else reward
                error = reward + config.gamma * following - now
                lam = config.gae_lambda if config.critic else 1.0
                ahead = error + (0.0 if over or cut else config.gamma * lam * ahead)
                advantages[t, e], returns[t, e] = ahead, ahead + now
        if config.normalize_advantage:
            advantages = (advantages - advantages.mean()) / max(float(advantages.std()), 1e-8)
        before = self.statistics()
        if config.value_norm != "none":
            self.returns += returns.ravel().tolist()
        for _ in range(config.epochs):
            losses = []
            for e in range(count):
                states: dict[str, Any] = {}
                for t, step in enumerate(steps):
                    if config.recurrent and t % config.chunk_length == 0:
                        names = ("policy_state", "value_state")
                        states = {name: torch.tensor(step["extras"][name][e]) for name in names}
                    if config.recurrent and step["begins"][e]:
                        states = {name: rnn_state(config.rnn, config.hidden[-1]) for name in states}
                    losses.append(self.loss(step, e, advantages[t, e], returns[t, e], states, before))
            self.optimizer.zero_grad()
            torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.parameters, config.max_grad_norm)
            self.optimizer.step()
        if config.normalize_obs:
            self.seen += [step["obs"]["obs"][e] for step in steps for e in range(count)]

    def loss(self, step: Any, e: int, advantage: float, target: float, states: Any, before: Any) -> Tensor:
        """Of one step."""
        config, obs = self.config, self.observed(step["obs"]["obs"][e])
        distribution, states["policy_state"] = self.distribution(obs, states.get("policy_state"))
        log_prob, entropy = self.log_prob(distribution, step, e)
        if config.clip:
            ratio = (log_prob - float(step["extras"]["log_prob"][e])).exp()
            gain = torch.minimum(ratio * advantage, ratio.clamp(1 - config.clip, 1 + config.clip) * advantage)
        else:
            gain = log_prob * advantage
        loss = -gain - config.entropy * entropy
        if self.critic is not None:
            mean, std = self.statistics()
            value, states["value_state"] = self.run(self.critic, obs, 1, states.get("value_state"))
            wanted = (target - mean) / std
            error = (wanted - value[0]) ** 2
            if config.value_clip:
                old = (float(step["extras"]["value"][e]) - before[0]) / before[1]
                near = old + (value[0] - old).clamp(-config.value_clip, config.value_clip)
                error = torch.maximum(error, (wanted - near) ** 2)
            loss = loss + config.value_weight * error
        return loss
