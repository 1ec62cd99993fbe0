"""MAPPO written plainly: one environment, one step and one agent after the other, with autograd."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from lstm_plain import rnn_state, rnn_step
from qmix_plain import layers
from torch import Tensor

from relive.agents.mappo import MAPPO

ACTIVATIONS: dict[str, Any] = {"relu": torch.relu, "tanh": torch.tanh}


class Player:
    """Plays rollouts, and keeps all that was seen in a list."""

    def __init__(self, env: Any, memory: Any, learner: MAPPO, seed: int = 0) -> None:
        self.env, self.memory, self.learner = env, memory, learner
        self.actor = learner.actor(env.num_envs, explore=True, seed=seed)
        self.obs = env.reset(seed=seed)
        self.begins = np.ones(env.num_envs, bool)

    def rollout(self) -> list[dict[str, Any]]:
        """Steps of all environments, one dict each."""
        self.actor.load(self.learner.weights())
        steps = []
        for _ in range(self.learner.config.rollout):
            action, extras = self.actor.act(self.obs)
            step = self.env.step(action)
            self.memory.append(**step.row, **extras)
            self.actor.reset(step.ended)
            steps.append(
                {
                    "obs": {key: np.array(value) for key, value in self.obs.items()},
                    "row": {key: np.array(value) for key, value in step.row.items()},
                    "extras": {key: np.array(value) for key, value in extras.items()},
                    "begins": self.begins,
                    "terminated": step.terminated.copy(),
                    "truncated": step.truncated.copy(),
                }
            )
            self.obs, self.begins = step.obs, step.ended.copy()
        return steps


class Plain:
    """The same networks as a learner's at this moment, and the same settings."""

    def __init__(self, learner: MAPPO, env: Any) -> None:
        self.config, self.env, self.groups = learner.config, env, env.groups
        config = self.config
        self.team = env.shared_reward or config.reward in ("sum", "mean")
        self.policies = [_copies(policy.networks.networks.flat) for policy in learner.policies]
        self.critics = [_copies(critic.networks.networks.flat) for critic in learner.critics]
        self.log_std = [
            policy.head.log_std.detach().clone().requires_grad_() if policy.head.raw_width else None
            for policy in learner.policies
        ]
        self.targets = [[flat.detach().clone() for flat in flats] for flats in self.critics]
        self.optimizers = []
        for policy, critic, std in zip(self.policies, self.critics, self.log_std, strict=True):
            more = [] if std is None else [std]
            self.optimizers.append(
                (
                    torch.optim.Adam([*policy, *more], config.actor_lr, eps=config.eps),
                    torch.optim.Adam(critic, config.critic_lr, eps=config.eps),
                )
            )
        self.returns: list[list[float]] = [[] for _ in env.groups]
        self.rewards: dict[tuple[int, int], list[float]] = {}
        self.before: dict[int, tuple[float, float]] = {}
        """Mean and deviation that values of the rollout were normalised with."""
        self.steps = 0
        self.states: dict[Any, Tensor] = {}
        """Recurrent states before the next step, by what, group, environment and network."""
        self.seen: dict[str, list[Any]] = {}
        self.last: Any = None
        """What everybody did before the next step."""

    # ---- networks, one agent at a time -----------------------------------------------------------------------------

    def _observed(self, key: str, value: Any) -> Tensor:
        flat = torch.tensor(np.asarray(value, np.float32)).flatten()
        if not self.config.normalize_obs or not self.seen.get(key):
            return flat
        rows = torch.tensor(np.array(self.seen[key]), dtype=torch.float64)
        mean, std = rows.mean(dim=0), rows.std(dim=0, correction=0).clamp(min=1e-4)
        return ((flat - mean) / std).clamp(-10, 10).float()

    def _own(self, g: int, e: int, agent: int, obs: Any) -> Tensor:
        group = self.groups[g]
        return self._observed(group.key("obs"), obs[group.key("obs")][e, agent])

    def _identity(self, g: int, agent: int) -> Tensor:
        count, known = len(self.groups[g]), self.config.parameter_sharing and self.config.agent_id
        return torch.eye(count)[agent] if known and count > 1 else torch.zeros(0)

    def _neighbours(self, g: int, e: int, agent: int, obs: Any) -> Tensor:
        """What the others of a group who are there did last, on average."""
        group = self.groups[g]
        if self.config.neighbours == "none":
            return torch.zeros(0)
        total, count = torch.zeros(int(group.action_space.n)), 0
        for other in range(len(group)):
            if other == agent or (group.mask and not obs[group.key("agent_mask")][e, other]):
                continue
            count += 1
            if obs["last"] is not None and not obs["new"][e]:
                total[int(obs["last"][group.key("action")][e, other]) - int(group.action_space.start)] += 1
        return total / max(count, 1)

    def _central(self, e: int, obs: Any, kind: str) -> Tensor:
        if kind == "state" or (kind in ("auto", "agent") and "state" in obs):
            return self._observed("state", obs["state"][e])
        return torch.cat(
            [self._own(g, e, agent, obs) for g, group in enumerate(self.groups) for agent in range(len(group))]
        )

    def _run(
        self, flat: Tensor, x: Tensor, outputs: int, h: Tensor | None, *, critic: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        config = self.config
        if config.recurrent and not (critic and not config.recurrent_critic):
            units = config.hidden[-1]
            h = rnn_state(config.rnn, units) if h is None else h
            return rnn_step(config.rnn, flat, len(x), units, outputs, x, h)
        parts = layers(flat, list(pairwise([len(x), *config.hidden, outputs])))
        for index, (weight, bias) in enumerate(parts):
            x = x @ weight + bias
            x = x if index == len(parts) - 1 else ACTIVATIONS[config.activation](x)
        return x, None

    def policy(self, g: int, e: int, agent: int, obs: Any, h: Tensor | None) -> tuple[Any, Tensor | None]:
        """The distribution of an agent's actions, by torch's own classes."""
        group = self.groups[g]
        flat = self.policies[g][0 if self.config.parameter_sharing else agent]
        neighbours = self._neighbours(g, e, agent, obs)
        x = torch.cat([self._own(g, e, agent, obs), neighbours, self._identity(g, agent)])
        std, space = self.log_std[g], group.action_space
        std = None if std is None else std[0 if self.config.parameter_sharing else agent]
        outputs = len(std) if std is not None else int(space.n if hasattr(space, "n") else space.nvec.sum())
        found, h = self._run(flat, x, outputs, h)
        if std is not None:
            return torch.distributions.Independent(torch.distributions.Normal(found, std.exp()), 1), h
        if group.avail:
            found = found.masked_fill(~torch.tensor(obs[group.key("avail_actions")][e, agent]), -1e9)
        return torch.distributions.Categorical(logits=found), h

    def value(self, nets: Any, g: int, e: int, agent: int, obs: Any, h: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """A normalised value."""
        kind, shared = self.config.critic, self.config.parameter_sharing
        if kind in ("own", "agent"):
            parts = [self._central(e, obs, kind)] if kind == "agent" else []
            parts += [self._own(g, e, agent, obs), self._neighbours(g, e, agent, obs), self._identity(g, agent)]
            x = torch.cat(parts)
            found, h = self._run(nets[g][0 if shared else agent], x, 1, h, critic=True)
            return found[0], h
        outputs = 1 if self.team else len(self.groups[g])
        found, h = self._run(nets[g][0], self._central(e, obs, kind), outputs, h, critic=True)
        return found[0 if self.team else agent], h

    def _scale(self, g: int) -> tuple[float, float]:
        if self.config.value_norm == "none" or not self.returns[g]:
            return 0.0, 1.0
        every = np.array(self.returns[g])
        return float(every.mean()), max(float(every.std()), 1e-4)

    # ---- targets ---------------------------------------------------------------------------------------------------

    def _network(self, agent: int) -> int:
        """Which recurrent state of a critic is an agent's."""
        return agent if self.config.critic in ("own", "agent") else 0

    def learn(self, steps: list[dict[str, Any]], now: Any) -> dict[str, Any]:
        """One update; everything that was computed on the way, by group, environment and agent."""
        config, found = self.config, {}
        for step in steps:  # what was done before, and where an episode begins
            step["obs"] |= {"last": self.last, "new": step["begins"]}
            self.last = step["row"]
        ended = steps[-1]["terminated"] | steps[-1]["truncated"]
        now = {**now, "last": self.last, "new": ended}
        nets = self.targets if config.target_tau else self.critics
        for g in range(len(self.groups)):
            for e in range(self.env.num_envs):
                for agent in range(len(self.groups[g])):
                    with torch.no_grad():
                        found[g, e, agent] = self._agent(nets, g, e, agent, steps, now)
        self.states |= {key: value for each in found.values() for key, value in each["states"].items()}
        for g in range(len(self.groups)):
            mine = [each for key, each in found.items() if key[0] == g]
            self._advantages(g, mine)
            counted = [r for each in mine for r, there in zip(each["returns"], each["there"], strict=True) if there]
            before = self.before[g] = self._scale(g)
            self.returns[g] += counted
            if config.value_norm == "popart":
                self._rescale(g, before, self._scale(g))
        for _ in range(config.epochs):
            self._epoch(steps, found)
        if config.target_tau:
            for flats, targets in zip(self.critics, self.targets, strict=True):
                for flat, target in zip(flats, targets, strict=True):
                    target.mul_(1 - config.target_tau).add_(flat.detach() * config.target_tau)
        self.steps += len(steps) * self.env.num_envs
        for step in steps if config.normalize_obs else ():
            for key, value in step["obs"].items():
                alive = step["obs"].get(key.replace("obs", "agent_mask"))
                if key in ("last", "new"):
                    continue
                if key == "state":
                    self.seen.setdefault(key, []).extend(value)
                elif key.endswith("obs"):
                    rows = value.reshape(-1, value.shape[-1])
                    there = np.ones(len(rows), bool) if alive is None else alive.ravel()
                    self.seen.setdefault(key, []).extend(rows[there])
        return found

    def _reward(self, g: int, e: int, agent: int, row: Any) -> float:
        group = self.groups[g]
        if self.env.shared_reward:
            return float(row["reward"][e])
        every = row[group.key("reward")][e]
        if not self.team:
            return float(every[agent])
        return float(every.sum() if self.config.reward == "sum" else every.mean())

    def _agent(self, nets: Any, g: int, e: int, agent: int, steps: Any, now: Any) -> dict[str, Any]:
        """Values, rewards and ends of one agent, and the recurrent states before each of its steps."""
        group, zeros = self.groups[g], rnn_state(self.config.rnn, self.config.hidden[-1])
        place = {"policy": ("policy", g, e, agent), "value": ("value", g, e, self._network(agent))}
        ph, vh = (self.states.get(place[what], zeros) for what in ("policy", "value"))
        mean, std = self._scale(g)
        mask = group.key("agent_mask")
        rows = []
        for t, step in enumerate(steps):
            obs, row = step["obs"], step["row"]
            if step["begins"][e]:
                ph, vh = zeros, zeros
            distribution, ph_after = self.policy(g, e, agent, obs, ph)
            value, vh_after = self.value(nets, g, e, agent, obs, vh)
            later = steps[t + 1]["obs"] if t + 1 < len(steps) else now
            if step["truncated"][e] and not step["terminated"][e]:
                later = {key.replace("final_", ""): v for key, v in row.items() if "final_" in key}
                later |= {"last": row, "new": np.zeros(self.env.num_envs, bool)}
            next_value = self.value(nets, g, e, agent, later, vh_after)[0] * std + mean
            own = group.mask and not self.team
            rows.append(
                {
                    "policy_state": ph,
                    "value_state": vh,
                    "value": float(value * std + mean),
                    "next_value": float(next_value),
                    "log_prob": float(distribution.log_prob(self._action(g, e, agent, step))),
                    "reward": self._reward(g, e, agent, row),
                    "alive": bool(obs[mask][e, agent]) if group.mask else True,
                    "there": bool(obs[mask][e, agent]) if own else True,
                    "terminated": bool(step["terminated"][e])
                    or (own and not later[mask][e, agent])
                    or (bool(step["truncated"][e]) and not self.config.bootstrap_on_truncation),
                    "ended": bool(step["terminated"][e] or step["truncated"][e]),
                }
            )
            ph, vh = (zeros if after is None else after for after in (ph_after, vh_after))
        if steps[-1]["terminated"][e] or steps[-1]["truncated"][e]:
            ph, vh = zeros, zeros
        states = {place["policy"]: ph, place["value"]: vh}
        return {"rows": rows, "states": states, "there": [row["there"] for row in rows]}

    def _advantages(self, g: int, mine: list[dict[str, Any]]) -> None:
        config = self.config
        if config.standardize_reward:
            for place, each in enumerate(mine):
                column = 0 if self.team else place % len(self.groups[g])
                if self.team and place % len(self.groups[g]):
                    continue  # the one reward of all counts once
                kept = self.rewards.setdefault((g, column), [])
                kept += [row["reward"] for row in each["rows"] if row["there"]]
            for place, each in enumerate(mine):
                kept = self.rewards[g, 0 if self.team else place % len(self.groups[g])]
                for row in each["rows"]:
                    row["reward"] = (row["reward"] - np.mean(kept)) / max(np.std(kept), 1e-4)
        for each in mine:
            each["returns"], each["advantage"] = [], []
            for t, row in enumerate(each["rows"]):
                total = self._n_step(each["rows"], t) if config.n_step else self._gae(each["rows"], t)
                there = row["there"]
                each["advantage"].append(total - row["value"] if there else 0.0)
                each["returns"].append(total if there else 0.0)
        if config.normalize_advantage:
            counted = [
                value
                for each in mine
                for value, row in zip(each["advantage"], each["rows"], strict=True)
                if row["alive"]
            ]
            mean, std = np.mean(counted), max(np.std(counted), 1e-8)
            for each in mine:
                each["advantage"] = [(value - mean) / std for value in each["advantage"]]

    def _gae(self, rows: list[Any], at: int) -> float:
        total, weight = 0.0, 1.0
        for row in rows[at:]:
            after = 0.0 if row["terminated"] else row["next_value"]
            total += weight * (row["reward"] + self.config.gamma * after - row["value"])
            weight *= self.config.gamma * self.config.gae_lambda
            if row["terminated"] or row["ended"]:
                break
        return total + rows[at]["value"]

    def _n_step(self, rows: list[Any], at: int) -> float:
        total, weight = 0.0, 1.0
        last = min(at + self.config.n_step, len(rows)) - 1
        for t in range(at, last + 1):
            row = rows[t]
            total += weight * row["reward"]
            weight *= self.config.gamma
            if row["terminated"]:
                return total
            if row["ended"] or t == last:
                return total + weight * row["next_value"]
        raise AssertionError

    def _rescale(self, g: int, before: tuple[float, float], after: tuple[float, float]) -> None:
        """Values stay as they were."""
        with torch.no_grad():
            outputs = 1 if self.team or self.config.critic in ("own", "agent") else len(self.groups[g])
            for flat in self.critics[g]:
                weight = flat[-(self.config.hidden[-1] + 1) * outputs : -outputs]
                bias = flat[-outputs:]
                weight.mul_(before[1] / after[1])
                bias.copy_((bias * before[1] + before[0] - after[0]) / after[1])

    # ---- losses ----------------------------------------------------------------------------------------------------

    def _action(self, g: int, e: int, agent: int, step: Any) -> Tensor:
        group = self.groups[g]
        if self.log_std[g] is not None:
            return torch.tensor(step["extras"][group.key("raw_action")][e, agent])
        return torch.tensor(int(step["row"][group.key("action")][e, agent]) - int(group.action_space.start))

    def _epoch(self, steps: Any, found: dict[Any, Any]) -> None:
        config = self.config
        for g in range(len(self.groups)):
            gains, entropies, losses = [], [], []
            mean, std = self._scale(g)
            for (index, e, agent), each in found.items():
                if index != g:
                    continue
                for t, (step, row) in enumerate(zip(steps, each["rows"], strict=True)):
                    if t % min(config.chunk_length, config.rollout) == 0:
                        ph, vh = row["policy_state"], row["value_state"]
                    if step["begins"][e]:
                        ph, vh = torch.zeros_like(row["policy_state"]), torch.zeros_like(row["value_state"])
                    distribution, ph = self.policy(g, e, agent, step["obs"], ph)
                    value, vh = self.value(self.critics, g, e, agent, step["obs"], vh)
                    advantage, returns = each["advantage"][t], (each["returns"][t] - mean) / std
                    if row["alive"]:
                        log_prob = distribution.log_prob(self._action(g, e, agent, step))
                        ratio = torch.exp(log_prob - row["log_prob"])
                        gain = log_prob * advantage
                        if config.clip:
                            near = min(max(ratio, torch.tensor(1 - config.clip)), torch.tensor(1 + config.clip))
                            gain = min(ratio * advantage, near * advantage)
                        gains.append(gain)
                        entropies.append(distribution.entropy())
                    if row["there"]:
                        old_mean, old_std = self.before[g] if config.value_norm == "running" else (mean, std)
                        losses.append(self._value_loss(value, (row["value"] - old_mean) / old_std, returns))
            scale = 1 + (config.lr_end - 1) * min(self.steps / config.lr_steps, 1)
            rates = (config.actor_lr, config.critic_lr)
            policy_loss = -sum(gains) / len(gains) - config.entropy * sum(entropies) / len(entropies)
            parts = zip(self.optimizers[g], rates, (policy_loss, sum(losses) / len(losses)), strict=True)
            for (optimizer, rate, loss), flats in zip(parts, (self.policies[g], self.critics[g]), strict=True):
                optimizer.zero_grad()
                loss.backward()
                for flat in flats:
                    torch.nn.utils.clip_grad_norm_([flat], config.max_grad_norm or math.inf)
                optimizer.param_groups[0]["lr"] = rate * scale
                optimizer.step()

    def _value_loss(self, value: Tensor, old_value: float, returns: float) -> Tensor:
        def loss(error: Tensor) -> Tensor:
            if self.config.td_loss == "mse":
                return error**2
            return error**2 / 2 if abs(error) < 1 else abs(error) - 0.5

        if not self.config.value_clip:
            return loss(returns - value)
        clip = self.config.value_clip
        near = old_value + min(max(value - old_value, torch.tensor(-clip)), torch.tensor(clip))
        return max(loss(returns - value), loss(returns - near))


def _copies(flat: Tensor) -> list[Tensor]:
    return [row.detach().clone().requires_grad_() for row in flat]
