"""Frozen benchmark workloads W1 to W7 and the seeded synthetic data that fills them.

Rows come from whole episodes: `next_obs` of a step is the `obs` of the step after it, except
across an episode's end, and image stacks share their frames the same way, so that a library
which stores shared data once is measured on data that really is shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = dict[str, Array]

CHUNK_BYTES = 1 << 25


@dataclass(frozen=True)
class Field:
    """One named column: shape and type of an entry, and how its values are drawn."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    high: int = 0
    """Values are integers below this; 0 means standard normal."""
    next_of: str = ""
    """The column whose following entry this one is."""
    stacked: bool = False
    """The first axis holds the latest frames, oldest first."""

    @property
    def nbytes(self) -> int:
        """Bytes of one entry."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def draw(self, rng: np.random.Generator, lead: tuple[int, ...]) -> Array:
        """Random entries with the leading axes `lead`."""
        shape = lead + self.shape
        if not self.high:
            return rng.standard_normal(shape, dtype=np.float32).astype(self.dtype, copy=False)
        if self.dtype == "uint8":
            return rng.integers(0, self.high, shape, dtype=np.uint8)
        return rng.integers(0, self.high, shape).astype(self.dtype)


@dataclass(frozen=True)
class RowSpec:
    """A memory of `capacity` transitions, of which one unit of work handles `batch`."""

    name: str
    fields: tuple[Field, ...]
    capacity: int
    batch: int
    horizon: int = 50
    seed: int = 0

    @property
    def function(self) -> str:
        """Name of the function in a peer's module that runs this workload."""
        return self.name.split("_")[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row over all columns."""
        return sum(field.nbytes for field in self.fields)

    def chunks(self) -> Iterator[Columns]:
        """Blocks of columns which together hold `capacity` rows."""
        rng = np.random.default_rng(self.seed)
        episodes = max(1, CHUNK_BYTES // (self.row_bytes * self.horizon))
        left = self.capacity
        while left:
            block = self._episodes(rng, min(episodes, -(-left // self.horizon)))
            count = min(left, len(block["done"]))
            yield {name: column[:count] for name, column in block.items()}
            left -= count

    def columns(self) -> Columns:
        """All rows at once."""
        whole = {f.name: np.empty((self.capacity, *f.shape), f.dtype) for f in self.fields}
        start = 0
        for chunk in self.chunks():
            stop = start + len(chunk["done"])
            for name, column in chunk.items():
                whole[name][start:stop] = column
            start = stop
        return whole

    def step(self) -> Columns:
        """One batch of new rows to append."""
        rng = np.random.default_rng(self.seed + 1)
        block = self._episodes(rng, -(-self.batch // self.horizon))
        return {name: np.ascontiguousarray(column[: self.batch]) for name, column in block.items()}

    def _episodes(self, rng: np.random.Generator, count: int) -> Columns:
        steps = self.horizon
        followed = {field.next_of: field.name for field in self.fields if field.next_of}
        block: Columns = {}
        for field in self.fields:
            if field.next_of:
                continue
            if field.name == "done":
                values = np.zeros((count, steps), field.dtype)
                values[:, -1] = 1
            elif field.name not in followed:
                values = field.draw(rng, (count, steps))
            else:
                stream = _stacks(field, rng, count, steps + 1) if field.stacked else field.draw(rng, (count, steps + 1))
                values = stream[:, :-1]
                block[followed[field.name]] = stream[:, 1:].reshape(-1, *field.shape)
            block[field.name] = values.reshape(-1, *field.shape)
        return {field.name: block[field.name] for field in self.fields}


def _stacks(field: Field, rng: np.random.Generator, count: int, steps: int) -> Array:
    depth, *frame = field.shape
    single = rng.integers(0, field.high, (count, steps + depth - 1, *frame), dtype=np.uint8)
    single[:, : depth - 1] = single[:, depth - 1 : depth]
    windows = np.lib.stride_tricks.sliding_window_view(single, depth, axis=1)
    return np.moveaxis(windows, -1, 2)


@dataclass(frozen=True)
class PrioritySpec(RowSpec):
    """A prioritised memory: one unit of work samples `batch` rows and updates their priorities."""

    alpha: float = 0.6
    beta: float = 0.4

    def priorities(self) -> Array:
        """A first priority for every row."""
        return self._errors(self.seed + 2, (self.capacity,))

    def new_priorities(self) -> Array:
        """Batches of new priorities to go round in."""
        return self._errors(self.seed + 3, (64, self.batch))

    def _errors(self, seed: int, shape: tuple[int, ...]) -> Array:
        rng = np.random.default_rng(seed)
        return np.abs(rng.standard_normal(shape, dtype=np.float32)) + np.float32(1e-3)


@dataclass(frozen=True)
class EpisodeSpec:
    """A memory of `capacity` whole episodes of `steps` padded steps, of which one unit of work samples `batch`."""

    name: str
    fields: tuple[Field, ...]
    capacity: int
    batch: int
    steps: int
    shortest: int
    seed: int = 0

    @property
    def function(self) -> str:
        """Name of the function in a peer's module that runs this workload."""
        return self.name

    @property
    def row_fields(self) -> tuple[Field, ...]:
        """The columns seen as rows, one row an episode."""
        return tuple(Field(f.name, (self.steps, *f.shape), f.dtype, f.high) for f in self.fields)

    def chunks(self) -> Iterator[Columns]:
        """Blocks of columns which together hold `capacity` episodes."""
        rng = np.random.default_rng(self.seed)
        size = max(1, CHUNK_BYTES // sum(field.nbytes for field in self.row_fields))
        for start in range(0, self.capacity, size):
            yield self._episodes(rng, min(size, self.capacity - start))

    def columns(self) -> Columns:
        """All episodes at once."""
        blocks = list(self.chunks())
        return {field.name: np.concatenate([block[field.name] for block in blocks]) for field in self.fields}

    def _episodes(self, rng: np.random.Generator, count: int) -> Columns:
        length = rng.integers(self.shortest, self.steps + 1, (count, 1))
        time = np.arange(self.steps)
        filled = time < length
        block: Columns = {}
        for field in self.fields:
            if field.name == "filled":
                block[field.name] = filled[..., None].astype(field.dtype)
            elif field.name == "terminated":
                block[field.name] = (time == length - 1)[..., None].astype(field.dtype)
            else:
                values = field.draw(rng, (count, self.steps))
                values[~filled] = 0
                block[field.name] = values
        return block


@dataclass(frozen=True)
class GaeSpec:
    """Generalised advantage estimation over a rollout of `steps` by `envs`."""

    name: str
    steps: int
    envs: int
    gamma: float = 0.99
    lam: float = 0.95
    seed: int = 0

    @property
    def function(self) -> str:
        """Name of the function in a peer's module that runs this workload."""
        return self.name

    def rollout(self) -> Columns:
        """Time-major float32 `reward`, `value`, `done` and the bootstrap `last_value`."""
        rng = np.random.default_rng(self.seed)
        shape = (self.steps, self.envs)
        return {
            "reward": rng.standard_normal(shape, dtype=np.float32),
            "value": rng.standard_normal(shape, dtype=np.float32),
            "done": (rng.random(shape) < 0.01).astype(np.float32),
            "last_value": rng.standard_normal(self.envs, dtype=np.float32),
        }

    def reference(self) -> Array:
        """The advantages in double precision, time-major."""
        data = {name: column.astype(np.float64) for name, column in self.rollout().items()}
        advantages = np.empty((self.steps, self.envs))
        following, running = data["last_value"], np.zeros(self.envs)
        for t in reversed(range(self.steps)):
            alive = 1.0 - data["done"][t]
            delta = data["reward"][t] + self.gamma * alive * following - data["value"][t]
            running = delta + self.gamma * self.lam * alive * running
            advantages[t], following = running, data["value"][t]
        return advantages


Spec = RowSpec | EpisodeSpec | GaeSpec

VECTOR = (
    Field("obs", (17,)),
    Field("action", (6,)),
    Field("reward"),
    Field("done"),
    Field("next_obs", (17,), next_of="obs"),
)

IMAGE = (
    Field("obs", (4, 84, 84), "uint8", high=256, stacked=True),
    Field("action", (), "int64", high=6),
    Field("reward"),
    Field("done"),
    Field("next_obs", (4, 84, 84), "uint8", high=256, next_of="obs", stacked=True),
)

TEAM = (
    Field("obs", (8, 40)),
    Field("state", (68,)),
    Field("avail", (8, 14), high=2),
    Field("action", (8,), "int64", high=14),
    Field("reward"),
    Field("done"),
    Field("next_obs", (8, 40), next_of="obs"),
    Field("next_state", (68,), next_of="state"),
    Field("next_avail", (8, 14), high=2, next_of="avail"),
)

PYMARL = (
    Field("obs", (4, 40)),
    Field("state", (68,)),
    Field("avail_actions", (4, 10), "int32", high=2),
    Field("actions", (4, 1), "int64", high=10),
    Field("reward", (1,)),
    Field("terminated", (1,), "uint8", high=2),
    Field("filled", (1,), "int64", high=2),
)


def workloads(quick: bool = False) -> dict[str, Spec]:
    """Every workload by name; `quick` divides the capacities by ten."""
    part = 10 if quick else 1
    specs: tuple[Spec, ...] = (
        RowSpec("w1", VECTOR, 1_000_000 // part, 256),
        PrioritySpec("w2", VECTOR, 1_000_000 // part, 256),
        RowSpec("w3_32", IMAGE, 20_000 // part, 32),
        RowSpec("w3_256", IMAGE, 20_000 // part, 256),
        RowSpec("w4", TEAM, 200_000 // part, 256),
        EpisodeSpec("w5", PYMARL, 5_000 // part, 32, steps=61, shortest=61),
        RowSpec("w6a", VECTOR, 1_000_000 // part, 8),
        RowSpec("w6b", VECTOR, 1_000_000 // part, 1000),
        GaeSpec("w7", 2048, 64),
    )
    return {spec.name: spec for spec in specs}
