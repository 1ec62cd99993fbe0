"""Stable-Baselines3's buffers.

They hold one transition of `n_envs` environments a call, so rows are prefilled through the
public arrays, and 1000 rows take 125 calls. There is no prioritised and no episode buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer, RolloutBuffer

from workloads import Array, Field, GaeSpec, RowSpec

NAME = "SB3"

ENVS = 8

torch.set_num_threads(1)


def version() -> str:
    """The version of Stable-Baselines3."""
    return metadata.version("stable-baselines3")


def _box(field: Field) -> spaces.Box:
    low, high = (0, 255) if field.dtype == "uint8" else (-np.inf, np.inf)
    return spaces.Box(low, high, field.shape, np.dtype(field.dtype).type)


def _actions(field: Field) -> spaces.Space[Any]:
    if not field.high:
        return _box(field)
    return spaces.MultiDiscrete([field.high] * field.shape[0]) if field.shape else spaces.Discrete(field.high)


def _filled(spec: RowSpec, envs: int = 1) -> ReplayBuffer:
    fields = {field.name: field for field in spec.fields}
    space = _box(fields["obs"])
    buffer = ReplayBuffer(
        spec.capacity, space, _actions(fields["action"]), "cpu", envs, handle_timeout_termination=False
    )
    start = 0
    for chunk in spec.chunks():
        stop = start + len(chunk["done"])
        for name, target in (
            ("obs", buffer.observations),
            ("next_obs", buffer.next_observations),
            ("action", buffer.actions),
            ("reward", buffer.rewards),
            ("done", buffer.dones),
        ):
            flat = target.reshape(spec.capacity, *target.shape[2:])
            flat[start:stop] = chunk[name].reshape(stop - start, *flat.shape[1:])
        start = stop
    buffer.full = True
    return buffer


def _sampler(spec: RowSpec) -> Callable[[], Any]:
    buffer = _filled(spec)
    return lambda: buffer.sample(spec.batch)


w1 = w3 = _sampler


def w4(spec: RowSpec) -> Callable[[], Any]:
    """The team's observation, state and mask as a dictionary observation."""
    fields = {field.name: field for field in spec.fields}
    parts = ("obs", "state", "avail")
    space = spaces.Dict({name: _box(fields[name]) for name in parts})
    buffer = DictReplayBuffer(spec.capacity, space, _actions(fields["action"]), "cpu", handle_timeout_termination=False)
    start = 0
    for chunk in spec.chunks():
        stop = start + len(chunk["done"])
        for name in parts:
            buffer.observations[name][start:stop, 0] = chunk[name]
            buffer.next_observations[name][start:stop, 0] = chunk[f"next_{name}"]
        buffer.actions[start:stop, 0] = chunk["action"]
        buffer.rewards[start:stop, 0] = chunk["reward"]
        buffer.dones[start:stop, 0] = chunk["done"]
        start = stop
    buffer.full = True
    return lambda: buffer.sample(spec.batch)


def _appender(spec: RowSpec) -> Callable[[], None]:
    buffer, step = _filled(spec, ENVS), spec.step()
    infos: list[dict[str, Any]] = [{} for _ in range(ENVS)]
    names = ("obs", "next_obs", "action", "reward", "done")
    parts = [tuple(step[name][start : start + ENVS] for name in names) for start in range(0, spec.batch, ENVS)]

    def append() -> None:
        for part in parts:
            buffer.add(*part, infos)

    return append


w6a = w6b = _appender


def w7(spec: GaeSpec) -> Callable[[], Array]:
    """The rollout buffer's advantages and returns."""
    space = spaces.Box(-1, 1, (1,), np.float32)
    buffer = RolloutBuffer(spec.steps, space, space, "cpu", spec.lam, spec.gamma, spec.envs)
    data = spec.rollout()
    buffer.rewards[:], buffer.values[:] = data["reward"], data["value"]
    buffer.episode_starts[0], buffer.episode_starts[1:] = 1, data["done"][:-1]
    last_values, dones = torch.from_numpy(data["last_value"]), data["done"][-1]

    def gae() -> Array:
        buffer.compute_returns_and_advantage(last_values, dones)
        return buffer.advantages

    return gae
