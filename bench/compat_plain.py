"""The algorithms of XuanCe's and PyMARL's documents, written plainly: what the drop-ins are compared with."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch as th


class ListTree:
    """A segment tree over a Python list, one number at a time."""

    def __init__(self, leaves: int, neutral: float, combine: Any) -> None:
        self.leaves = 1
        while self.leaves < leaves:
            self.leaves *= 2
        self.combine = combine
        self.nodes = [neutral] * (2 * self.leaves)

    def set(self, leaf: int, value: float) -> None:
        node = leaf + self.leaves
        self.nodes[node] = value
        node //= 2
        while node >= 1:
            self.nodes[node] = self.combine(self.nodes[2 * node], self.nodes[2 * node + 1])
            node //= 2

    def get(self, leaf: int) -> float:
        return self.nodes[leaf + self.leaves]

    def root(self) -> float:
        return self.nodes[1]

    def find(self, mass: float) -> int:
        node = 1
        while node < self.leaves:
            node *= 2
            if self.nodes[node] <= mass:
                mass -= self.nodes[node]
                node += 1
        return node - self.leaves


class PlainPrioritized:
    """One environment's prioritised replay: float32 arrays and two trees."""

    def __init__(self, obs: int, size: int, batch_size: int, alpha: float) -> None:
        self.observations = np.zeros((size, obs), np.float32)
        self.next_observations = np.zeros((size, obs), np.float32)
        self.actions, self.rewards, self.terminals = (np.zeros(size, np.float32) for _ in range(3))
        self.batch_size, self.alpha, self.size, self.ptr, self.largest = batch_size, alpha, 0, 0, 1.0
        self.sums = ListTree(size, 0.0, lambda a, b: a + b)
        self.least = ListTree(size, float("inf"), min)

    def store(self, obs: Any, act: float, rew: float, done: bool, next_obs: Any) -> None:
        self.observations[self.ptr], self.next_observations[self.ptr] = obs, next_obs
        self.actions[self.ptr], self.rewards[self.ptr], self.terminals[self.ptr] = act, rew, done
        for tree in (self.sums, self.least):
            tree.set(self.ptr, self.largest**self.alpha)
        self.ptr = (self.ptr + 1) % len(self.rewards)
        self.size = min(self.size + 1, len(self.rewards))

    def sample(self, beta: float) -> tuple[Any, ...]:
        part = self.sums.root() / self.batch_size
        steps = [self.sums.find((k + random.random()) * part) for k in range(self.batch_size)]
        most = (self.least.root() / self.sums.root() * self.size) ** -beta
        weights = []
        for step in steps:
            share = self.sums.get(step) / self.sums.root()
            weights.append((share * self.size) ** -beta / most)
        arrays = (self.observations, self.actions, self.rewards, self.terminals, self.next_observations)
        return (*(array[steps] for array in arrays), np.array(weights), np.array(steps))

    def update(self, steps: Any, errors: Any) -> None:
        for step, error in zip(steps, errors, strict=True):
            for tree in (self.sums, self.least):
                tree.set(int(step), float(error) ** self.alpha)
            self.largest = max(self.largest, float(error))


class PlainBatch:
    """Padded tensors that every update converts to, checks and copies into, value by value."""

    def __init__(self, scheme: dict[str, Any], agents: int, episodes: int, steps: int, actions: int) -> None:
        self.scheme, self.actions = scheme, actions
        self.data: dict[str, Any] = {}
        for name, about in scheme.items():
            shape = (agents, *about["vshape"]) if about.get("group") else tuple(about["vshape"])
            self.data[name] = th.zeros((episodes, steps, *shape), dtype=about.get("dtype", th.float32))
        self.data["actions_onehot"] = th.zeros((episodes, steps, agents, actions))
        self.data["filled"] = th.zeros((episodes, steps, 1), dtype=th.long)

    def update(self, data: dict[str, Any], t: int) -> None:
        place = (slice(None), slice(t, t + 1))
        self.data["filled"][place] = 1
        self._write(data, place)

    def insert(self, batch: PlainBatch, first: int) -> None:
        self._write(
            batch.data, (slice(first, first + len(batch.data["filled"])), slice(0, batch.data["filled"].shape[1]))
        )

    def _write(self, data: dict[str, Any], place: Any) -> None:
        for name, value in data.items():
            tensor = th.tensor(value, dtype=self.data[name].dtype)
            target = self.data[name][place]
            left = len(tensor.shape) - 1
            for size in reversed(target.shape):
                if left >= 0 and tensor.shape[left] == size:
                    left -= 1
                elif size != 1:
                    raise ValueError("does not fit")
            self.data[name][place] = tensor.view_as(target)
            if name == "actions":
                source = self.data[name][place]
                vectors = source.new_zeros(*source.shape[:-1], self.actions)
                vectors.scatter_(-1, source.long(), 1)
                self.data["actions_onehot"][place] = vectors.float().view_as(self.data["actions_onehot"][place])

    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.data.values())


class PlainRollout:
    """Rollouts of many agents in float32 arrays; returns and advantages one step after the other."""

    def __init__(self, envs: int, steps: int, agents: int, obs: int, gamma: float, lam: float) -> None:
        self.gamma, self.lam = gamma, lam
        lead = (envs, steps, agents)
        self.data = {
            "obs": np.zeros((*lead, obs), np.float32),
            "rewards": np.zeros((*lead, 1), np.float32),
            "values": np.zeros((*lead, 1), np.float32),
            "returns": np.zeros((*lead, 1), np.float32),
            "advantages": np.zeros((*lead, 1), np.float32),
            "terminals": np.zeros(lead, bool),
        }

    def finish_path(self, value: Any, env: int, start: int, end: int) -> None:
        path = np.arange(start, end)
        rewards, values = np.array(self.data["rewards"][env, path]), self.data["values"][env, path]
        values = np.append(np.array(values), [value], axis=0)
        dones = np.array(self.data["terminals"][env, path])[:, :, None]
        returns = np.zeros_like(rewards)
        last = 0.0
        for t in reversed(range(len(path))):
            delta = rewards[t] + (1 - dones[t]) * self.gamma * values[t + 1] - values[t]
            last = delta + (1 - dones[t]) * self.gamma * self.lam * last
            returns[t] = last + values[t]
        self.data["returns"][env, path] = returns
        self.data["advantages"][env, path] = returns - values[:-1]
