"""Plain NumPy columns read by fancy indexing, the baseline of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import numpy as np

from workloads import Array, Columns, EpisodeSpec, GaeSpec, PrioritySpec, RowSpec

NAME = "numpy"


def version() -> str:
    """The version of NumPy."""
    return np.__version__


def _sampler(spec: RowSpec | EpisodeSpec) -> Callable[[], Columns]:
    columns, rng = spec.columns(), np.random.default_rng(spec.seed)
    capacity, batch = spec.capacity, spec.batch

    def sample() -> Columns:
        index = rng.integers(0, capacity, batch)
        return {name: column[index] for name, column in columns.items()}

    return sample


w1 = w3 = w4 = w5 = _sampler


class SumTree:
    """A binary sum tree in one double array, walked level by level for a whole batch."""

    def __init__(self, leaves: Array) -> None:
        self.depth = max(1, (len(leaves) - 1).bit_length())
        self.first = 1 << self.depth
        self.nodes = np.zeros(2 * self.first)
        self.nodes[self.first : self.first + len(leaves)] = leaves
        for level in reversed(range(self.depth)):
            start = 1 << level
            self.nodes[start : 2 * start] = self.nodes[2 * start : 4 * start].reshape(-1, 2).sum(1)

    def find(self, mass: Array) -> Array:
        """The leaves which the given amounts of cumulated mass fall on."""
        node = np.ones(len(mass), np.int64)
        for _ in range(self.depth):
            node *= 2
            left = self.nodes[node]
            right = mass >= left
            mass = mass - left * right
            node += right
        return node - self.first

    def update(self, index: Array, value: Array) -> None:
        """Sets leaves and the sums above them."""
        node = index + self.first
        self.nodes[node] = value
        for _ in range(self.depth):
            node = node >> 1
            child = 2 * node
            self.nodes[node] = self.nodes[child] + self.nodes[child + 1]


def w2(spec: PrioritySpec) -> Callable[[], Columns]:
    """Stratified prioritised sampling with weights scaled by the batch's largest, then the update."""
    columns, rng = spec.columns(), np.random.default_rng(spec.seed)
    tree = SumTree(spec.priorities() ** spec.alpha)
    news = cycle(spec.new_priorities())
    strata = np.arange(spec.batch)

    def sample_and_update() -> Columns:
        total = tree.nodes[1]
        mass = (strata + rng.random(spec.batch)) * (total / spec.batch)
        index = np.minimum(tree.find(mass), spec.capacity - 1)
        weight = (tree.nodes[index + tree.first] * (spec.capacity / total)) ** -spec.beta
        weight /= weight.max()
        batch = {name: column[index] for name, column in columns.items()}
        batch["weight"] = weight
        tree.update(index, next(news) ** spec.alpha)
        return batch

    return sample_and_update


def _appender(spec: RowSpec) -> Callable[[], None]:
    columns, step = spec.columns(), spec.step()
    pairs = [(columns[name], step[name]) for name in columns]
    capacity, batch, position = spec.capacity, spec.batch, 0

    def append() -> None:
        nonlocal position
        stop = position + batch
        if stop <= capacity:
            for column, new in pairs:
                column[position:stop] = new
        else:
            index = np.arange(position, stop) % capacity
            for column, new in pairs:
                column[index] = new
        position = stop % capacity

    return append


w6a = w6b = _appender


def w7(spec: GaeSpec) -> Callable[[], Array]:
    """A loop over time for what depends on the step after, the rest at once."""
    data = spec.rollout()
    reward, value, done, last_value = data["reward"], data["value"], data["done"], data["last_value"]
    gamma, lam = np.float32(spec.gamma), np.float32(spec.lam)

    def gae() -> Array:
        discount = gamma * (1 - done)
        advantages = reward - value
        advantages[:-1] += discount[:-1] * value[1:]
        advantages[-1] += discount[-1] * last_value
        discount *= lam
        for t in range(spec.steps - 2, -1, -1):
            advantages[t] += discount[t] * advantages[t + 1]
        return advantages

    return gae
