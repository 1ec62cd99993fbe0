"""QMIX written plainly: one episode, one step and one agent after the other, with autograd."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relive.agents.qmix import QMIX, QMIXConfig


def layers(flat: Tensor, shapes: list[tuple[int, int]]) -> list[tuple[Tensor, Tensor]]:
    found, at = [], 0
    for rows, columns in shapes:
        weight = flat[at : at + rows * columns].view(rows, columns)
        at += rows * columns
        found.append((weight, flat[at : at + columns]))
        at += columns
    assert at == len(flat)
    return found


def perceptron(flat: Tensor, sizes: list[int], x: Tensor) -> Tensor:
    parts = layers(flat, list(pairwise(sizes)))
    for index, (weight, bias) in enumerate(parts):
        x = x @ weight + bias
        x = x if index == len(parts) - 1 else x.relu()
    return x


def recurrent(flat: Tensor, inputs: int, units: int, outputs: int, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """By torch's own cell, whose gates have two biases each: one of them is zero."""
    shapes = [(inputs, units), (2 * units, 2 * units), (units, units), (units, units), (units, outputs)]
    (first, fb), (gates, gb), (fresh, xb), (hold, hb), (last, lb) = layers(flat, shapes)
    got = (x @ first + fb).relu()
    weight_ih = torch.cat([gates[:units].T, fresh.T])
    weight_hh = torch.cat([gates[units:].T, hold.T])
    after = torch.gru_cell(
        got[None], h[None], weight_ih, weight_hh, torch.cat([gb, xb]), torch.cat([torch.zeros(2 * units), hb])
    )[0]
    return after @ last + lb, after


def flats(networks: Any) -> dict[str, Tensor]:
    """Parameters of agents and of the mixer's hypernetworks, by name."""
    found = {}
    for name, module in networks.items():
        if name == "mixer":
            found |= {f"mixer.{part}": stack.flat for part, stack in module.mixer.named_children()}
        else:
            found[name] = module.networks.flat
    return found


class Plain:
    """The same networks as a learner's at this moment, and the same settings."""

    def __init__(self, learner: QMIX, env: Any) -> None:
        self.config: QMIXConfig = learner.config
        self.names = [name for name in learner.online if name != "mixer"]
        self.env, self.teams = env, [learner.online[name] for name in self.names]
        self.nets = {name: flat.detach().clone().requires_grad_() for name, flat in flats(learner.online).items()}
        self.targets = {name: flat.clone() for name, flat in flats(learner.target).items()}
        config = self.config
        every = list(self.nets.values())
        if config.optimizer == "adam":
            self.optimiser: Any = torch.optim.Adam(every, config.lr, eps=config.eps or 1e-8)
        else:
            self.optimiser = torch.optim.RMSprop(every, config.lr, alpha=0.99, eps=config.eps or 1e-5)
        self.updates = 0
        alone = config.reward == "auto" and config.mixer == "none"
        self.own = (config.reward == "own" or alone) and not env.shared_reward
        self.rewards: dict[int, list[float]] = {}
        """All rewards so far: those of each agent while it was there, or under 0 those of everyone."""

    def values(self, nets: dict[str, Tensor], index: int, fields: Any, rows: range, steps: range) -> list[list[Tensor]]:
        """Values of all actions by time and agent, of one episode."""
        team, config = self.teams[index], self.config
        flat = nets[self.names[index]]
        found = []
        states = [torch.zeros(config.hidden) for _ in range(team.agents)]
        for t, row in enumerate(rows):
            found.append([])
            for agent in range(team.agents):
                parts = [torch.from_numpy(fields["obs"][row, agent]).flatten().float()]
                if config.last_action:
                    last = torch.zeros(team.choices)
                    if t:
                        last[int(fields["action"][steps[t - 1], agent]) - team.start] = 1
                    parts.append(last)
                if config.agent_id and config.parameter_sharing and team.agents > 1:
                    parts.append(torch.eye(team.agents)[agent])
                x, mine = torch.cat(parts), flat[0 if config.parameter_sharing else agent]
                if config.recurrent:
                    sizes = (len(x), config.hidden, team.choices)
                    q, states[agent] = recurrent(mine, *sizes, x, states[agent])
                else:
                    q = perceptron(mine, [len(x), config.hidden, config.hidden, team.choices], x)
                found[-1].append(q)
        return found

    def mix(self, nets: dict[str, Tensor], values: Tensor, best: Tensor, actions: Tensor, state: Tensor) -> Tensor:
        config, agents = self.config, len(values)
        if config.mixer == "none":
            return values
        if config.mixer == "vdn":
            return values.sum()
        if config.mixer == "qplex":
            return self.plex(nets, values, best, actions, state)
        size, units = len(state), config.mixing_units
        hyper = [config.hypernet_units] if config.hypernet_units else []
        first = perceptron(nets["mixer.w1"][0], [size, *hyper, agents * units], state).view(agents, units)
        biases = perceptron(nets["mixer.b1"][0], [size, units], state)
        last = perceptron(nets["mixer.w2"][0], [size, *hyper, units], state)
        more = perceptron(nets["mixer.v"][0], [size, units, 1], state)[0]
        return torch.nn.functional.elu(values @ first.abs() + biases) @ last.abs() + more

    def plex(self, nets: dict[str, Tensor], values: Tensor, best: Tensor, actions: Tensor, state: Tensor) -> Tensor:
        """V_tot + A_tot, one agent and one head after the other; advantages are numbers and not learned by."""
        units, agents = self.config.hypernet_units, len(values)
        w = perceptron(nets["mixer.w"][0], [len(state), units, agents], state).abs() + 1e-10
        b = perceptron(nets["mixer.b"][0], [len(state), units, agents], state)
        both, total = torch.cat([state, actions]), torch.zeros(())
        for agent in range(agents):
            importance = torch.zeros(())
            for head in range(len(nets["mixer.key"])):
                key = perceptron(nets["mixer.key"][head], [len(state), units, 1], state)[0].abs() + 1e-10
                who = perceptron(nets["mixer.agent"][head], [len(state), units, agents], state)[agent].sigmoid()
                what = perceptron(nets["mixer.action"][head], [len(both), units, agents], both)[agent].sigmoid()
                importance = importance + key * who * what
            advantage = float((w[agent] * (values[agent] - best[agent])).detach())
            total = total + w[agent] * values[agent] + b[agent] + (importance - 1) * advantage
        return total

    def reward(self, batch: Any, fields: list[Any], step: int) -> Any:
        if self.env.shared_reward:
            return float(batch["reward"][step])
        every = np.concatenate([field["reward"][step] for field in fields])
        return every if self.own else every.mean() if self.config.reward == "mean" else every.sum()

    def update(self, batch: Any) -> tuple[float, list[float]]:
        config = self.config
        fields = [batch[team.group.name] if team.group.name else batch for team in self.teams]
        lengths = batch["lengths"].tolist()
        rewards = [self.reward(batch, fields, step) for step in range(sum(lengths))]
        for episode, length in enumerate(lengths):
            for t in range(length):
                step = sum(lengths[:episode]) + t
                gone = self.gone(fields, step + episode)  # every episode before it saw one thing more
                for index, each in enumerate(np.ravel(rewards[step])):
                    if not self.own or not gone[index]:
                        self.rewards.setdefault(index, []).append(float(each))
        learned = [
            np.array([self.standard(each, i) for i, each in enumerate(reward)])
            if self.own
            else self.standard(reward, 0)
            for reward in rewards
        ]
        total, count, errors = torch.zeros(()), 0, []
        seen = stepped = 0
        for episode, length in enumerate(lengths):
            rows, steps = range(seen, seen + length + 1), range(stepped, stepped + length)
            seen, stepped = rows.stop, steps.stop
            online = [self.values(self.nets, i, fields[i], rows, steps) for i in range(len(fields))]
            with torch.no_grad():
                old = [self.values(self.targets, i, fields[i], rows, steps) for i in range(len(fields))]
            taken, nexts, given, counted = [], [], [], []
            for t in range(length):
                now, then, there_all = [], [], []
                most: list[list[Tensor]] = [[], []]  # best values now by the networks, and then by the targets
                done: list[list[Tensor]] = [[], []]
                for i, (team, field) in enumerate(zip(self.teams, fields, strict=True)):
                    for agent in range(team.agents):
                        there = [
                            float(field["agent_mask"][row, agent]) if self.leave(team) else 1.0
                            for row in (rows[t], rows[t + 1])
                        ]
                        action = int(field["action"][steps[t], agent]) - team.start
                        now.append(online[i][t][agent][action] * there[0])
                        can = [
                            torch.from_numpy(field["avail_actions"][row, agent])
                            if team.group.avail
                            else torch.ones(team.choices, dtype=torch.bool)
                            for row in (rows[t], rows[t + 1])
                        ]
                        chooser = (online if config.double_q else old)[i][t + 1][agent].detach().clone()
                        chooser[~can[1]] = -1e9
                        then.append(old[i][t + 1][agent][chooser.argmax()] * there[1])
                        most[0].append(online[i][t][agent].detach()[can[0]].max() * there[0])
                        most[1].append(old[i][t + 1][agent][can[1]].max() * there[1])
                        for k, each in enumerate((action, int(chooser.argmax()))):
                            done[k].append(torch.eye(team.choices)[each])
                        there_all.append(there[0])
                states = [self.state(batch, fields, rows[s]) for s in (t, t + 1)]
                bests, actions = [torch.stack(each) for each in most], [torch.cat(each) for each in done]
                taken.append(self.mix(self.nets, torch.stack(now), bests[0], actions[0], states[0]))
                with torch.no_grad():
                    nexts.append(self.mix(self.targets, torch.stack(then), bests[1], actions[1], states[1]))
                given.append(torch.as_tensor(learned[steps[t]], dtype=torch.float32))
                counted.append(torch.tensor(there_all) if config.mixer == "none" else torch.ones(()))
            over = batch["terminated"][steps.start : steps.stop]
            if not config.bootstrap_on_truncation:
                over = over | batch["truncated"][steps.start : steps.stop]
            if config.mixer == "none":  # each agent by itself, up to where it is not there any more
                alone = []
                for agent in range(len(nexts[0])):
                    own = [reward[agent] if self.own else reward for reward in given]
                    gone = [counted[t + 1][agent] == 0 for t in range(length - 1)]
                    gone.append(self.gone(fields, rows[-1])[agent])
                    after = [self.possible(each[agent], agent if self.own else 0) for each in nexts]
                    alone.append(self.targets_of(own, after, over | np.array(gone)))
                wanted = [torch.stack([one[t] for one in alone]) for t in range(length)]
            else:
                wanted = self.targets_of(given, [self.possible(each, 0) for each in nexts], over)
            away = [(one - other) * some for one, other, some in zip(taken, wanted, counted, strict=True)]
            weight = float(batch["weights"][episode])
            for error, some in zip(away, counted, strict=True):
                total = total + weight * (error**2).sum()
                count += int(some.sum())
            each = [
                error.detach().abs().sum() / some.sum().clamp(min=1) for error, some in zip(away, counted, strict=True)
            ]
            errors.append(float(torch.stack(each).mean()))
        loss = total / count
        self.optimiser.zero_grad()
        loss.backward()
        if config.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self.nets.values(), config.max_grad_norm)
        for group in self.optimiser.param_groups:
            done = min(self.updates * config.update_every / config.lr_episodes, 1)
            group["lr"] = config.lr * (1 - done + done * config.lr_end)
        self.optimiser.step()
        self.updates += 1
        every = Fraction(str(config.update_every))
        for name, net in self.nets.items():
            if config.tau:
                self.targets[name] += config.tau * (net.detach() - self.targets[name])
            elif (config.learning_starts + (self.updates - 1) * every) % config.target_update_interval < every:
                self.targets[name] = net.detach().clone()
        return float(loss.detach()), errors

    def standard(self, reward: float, index: int) -> float:
        if not self.config.standardize_reward or index not in self.rewards:
            return reward
        return float((reward - np.mean(self.rewards[index])) / max(np.std(self.rewards[index]), 1e-4))

    def possible(self, value: Tensor, index: int) -> Tensor:
        """A value, cut to what one or very many of the rewards seen would add up to."""
        if not self.config.clip_targets or index not in self.rewards:
            return value
        many = sum(self.config.gamma**k for k in range(10_000))
        low, high = (self.standard(find(self.rewards[index]), index) for find in (min, max))
        return value.clamp(min(low, low * many), max(high, high * many))

    def leave(self, team: Any) -> bool:
        """Whether agents can be gone: not where each learns by itself from what all get, then or later."""
        return bool(team.group.mask and (self.config.mixer != "none" or self.own))

    def gone(self, fields: list[Any], row: int) -> list[bool]:
        """Who is not there, of everyone."""
        every = [
            ~field["agent_mask"][row] if self.leave(team) else np.zeros(team.agents, bool)
            for team, field in zip(self.teams, fields, strict=True)
        ]
        return list(np.concatenate(every))

    def state(self, batch: Any, fields: list[Any], row: int) -> Tensor:
        if self.env.state_space is not None:
            return torch.from_numpy(batch["state"][row]).float()
        return torch.from_numpy(np.concatenate([field["obs"][row].ravel() for field in fields])).float()

    def targets_of(self, rewards: list[Tensor], nexts: list[Tensor], terminated: Any) -> list[Tensor]:
        """What values should be, from the definitions: n steps, or all of them with weights."""
        config, length = self.config, len(rewards)

        def after(t: int, n: int) -> Tensor:
            """The return of n steps from t on, fewer where the episode is over."""
            n = min(n, length - t)
            for k in range(n):
                if terminated[t + k]:
                    n = k + 1
                    break
            found = sum((config.gamma**k * rewards[t + k] for k in range(n)), torch.zeros(()))
            return found + config.gamma**n * nexts[t + n - 1] * (0.0 if terminated[t + n - 1] else 1.0)

        if config.n_step > 1 or not config.td_lambda:
            return [after(t, config.n_step) for t in range(length)]
        found = []
        for t in range(length):
            left = length - t
            parts = [(1 - config.td_lambda) * config.td_lambda ** (n - 1) * after(t, n) for n in range(1, left)]
            found.append(sum(parts, config.td_lambda ** (left - 1) * after(t, left)))
        return found
