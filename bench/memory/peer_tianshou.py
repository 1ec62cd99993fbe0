"""Tianshou's buffers and its Numba GAE.

Its buffers take one step of each environment a call, so most are prefilled with `from_data`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from itertools import cycle
from typing import Any

import numpy as np
import torch
from tianshou.algorithm.algorithm_base import _gae
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer

from workloads import Array, Columns, EpisodeSpec, GaeSpec, PrioritySpec, RowSpec

NAME = "Tianshou"

ENVS = 8

torch.set_num_threads(1)


def version() -> str:
    """The version of Tianshou."""
    return metadata.version("tianshou")


def _translated(columns: Columns) -> dict[str, Any]:
    """The columns under Tianshou's names, several observations nested in a Batch."""
    done = columns["done"].astype(bool)
    nested = [name for name in columns if f"next_{name}" in columns]
    plain = nested == ["obs"]
    return {
        "obs": columns["obs"] if plain else Batch({name: columns[name] for name in nested}),
        "obs_next": columns["next_obs"] if plain else Batch({name: columns[f"next_{name}"] for name in nested}),
        "act": columns["action"],
        "rew": columns["reward"],
        "terminated": done,
        "truncated": np.zeros_like(done),
    }


def _filled(spec: RowSpec) -> ReplayBuffer:
    data = _translated(spec.columns())
    return ReplayBuffer.from_data(**data, done=data["terminated"])


def _sampler(spec: RowSpec) -> Callable[[], Any]:
    buffer = _filled(spec)
    return lambda: buffer.sample(spec.batch)


w1 = w3 = w4 = _sampler


def w1__vector(spec: RowSpec) -> Callable[[], Any]:
    """W1 from the buffer for several environments."""
    buffer = VectorReplayBuffer(spec.capacity, ENVS)
    data = Batch(_translated(spec.columns()))
    for start in range(0, spec.capacity, ENVS):
        buffer.add(data[start : start + ENVS])
    return lambda: buffer.sample(spec.batch)


def w2(spec: PrioritySpec) -> Callable[[], Any]:
    """Prioritised sampling and update."""
    buffer = PrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, beta=spec.beta)
    buffer.update(_filled(spec))
    buffer.update_weight(np.arange(spec.capacity), spec.priorities())
    news = cycle(spec.new_priorities())

    def sample_and_update() -> Any:
        batch, index = buffer.sample(spec.batch)
        buffer.update_weight(index, next(news))
        return batch

    return sample_and_update


def w5(spec: EpisodeSpec) -> Callable[[], Any]:
    """One row an episode; everything but actions and rewards is part of the observation."""
    buffer = ReplayBuffer(spec.capacity)
    for chunk in spec.chunks():
        actions, rewards = chunk.pop("actions"), chunk.pop("reward")
        for i in range(len(actions)):
            buffer.add(
                Batch(
                    obs=Batch({name: column[i] for name, column in chunk.items()}),
                    act=actions[i],
                    rew=rewards[i],
                    terminated=np.True_,
                    truncated=np.False_,
                )
            )
    return lambda: buffer.sample(spec.batch)


def _appender(spec: RowSpec) -> Callable[[], None]:
    buffer = VectorReplayBuffer(spec.capacity, ENVS)
    data = Batch(_translated(spec.step()))
    parts = [data[start : start + ENVS] for start in range(0, spec.batch, ENVS)]
    buffer.add(parts[0])
    for name, column in _translated(spec.columns()).items():
        getattr(buffer, name)[:] = column

    def append() -> None:
        for part in parts:
            buffer.add(part)

    return append


w6a = w6b = _appender


def w6b__update(spec: RowSpec) -> Callable[[], Array]:
    """W6b by moving a whole buffer of one environment into another."""
    buffer, data = _filled(spec), _translated(spec.step())
    source = ReplayBuffer.from_data(**data, done=data["terminated"])
    return lambda: buffer.update(source)


def w7(spec: GaeSpec) -> Callable[[], Array]:
    """The compiled loop over all environments, one after the other."""
    data = spec.rollout()
    last = np.zeros((spec.steps, spec.envs), bool)
    last[-1] = True
    following = np.concatenate([data["value"][1:], data["last_value"][None]]) * (1 - data["done"])
    flat = [
        np.ascontiguousarray(array.T).ravel()
        for array in (data["value"], following, data["reward"], last | (data["done"] > 0))
    ]
    return lambda: _gae(*flat, spec.gamma, spec.lam).reshape(spec.envs, spec.steps).T
