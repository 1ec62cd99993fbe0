"""TorchRL's buffers and GAE, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from itertools import cycle
from typing import Any

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer
from torchrl.objectives.value.functional import (
    generalized_advantage_estimate,
    vec_generalized_advantage_estimate,
)

from workloads import Array, Columns, EpisodeSpec, GaeSpec, PrioritySpec, RowSpec

NAME = "TorchRL"

torch.set_num_threads(1)


def version() -> str:
    """The version of TorchRL."""
    return metadata.version("torchrl")


def _tensors(columns: Columns) -> TensorDict:
    tensors = {name: torch.from_numpy(column.copy()) for name, column in columns.items()}
    return TensorDict(tensors, batch_size=[len(next(iter(columns.values())))])


def _filled(spec: RowSpec | EpisodeSpec) -> TensorDictReplayBuffer:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(spec.capacity), batch_size=spec.batch)
    for chunk in spec.chunks():
        buffer.extend(_tensors(chunk))
    return buffer


def _sampler(spec: RowSpec | EpisodeSpec) -> Callable[[], TensorDict]:
    return _filled(spec).sample


w1 = w3 = w4 = w5 = _sampler


def w2(spec: PrioritySpec) -> Callable[[], TensorDict]:
    """Prioritised sampling and update."""
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=spec.alpha, beta=spec.beta, storage=LazyTensorStorage(spec.capacity), batch_size=spec.batch
    )
    for chunk in spec.chunks():
        buffer.extend(_tensors(chunk))
    buffer.update_priority(torch.arange(spec.capacity), torch.from_numpy(spec.priorities()))
    news = cycle(torch.from_numpy(spec.new_priorities()))

    def sample_and_update() -> TensorDict:
        batch = buffer.sample()
        buffer.update_priority(batch["index"], next(news))
        return batch

    return sample_and_update


def _appender(spec: RowSpec) -> Callable[[], Any]:
    buffer, step = _filled(spec), _tensors(spec.step())
    return lambda: buffer.extend(step)


w6a = w6b = _appender


def _gae(spec: GaeSpec, function: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], Array]:
    data = {name: torch.from_numpy(column) for name, column in spec.rollout().items()}
    following = torch.cat([data["value"][1:], data["last_value"][None]])
    value, following, reward, done = (
        tensor.T.contiguous()[..., None] for tensor in (data["value"], following, data["reward"], data["done"] > 0)
    )

    def gae() -> Array:
        with torch.no_grad():
            advantages, _ = function(spec.gamma, spec.lam, value, following, reward, done)
        return advantages[..., 0].T.numpy()

    return gae


def w7(spec: GaeSpec) -> Callable[[], Array]:
    """The loop over time."""
    return _gae(spec, generalized_advantage_estimate)


def w7__vectorised(spec: GaeSpec) -> Callable[[], Array]:
    """The vectorised form."""
    return _gae(spec, vec_generalized_advantage_estimate)
