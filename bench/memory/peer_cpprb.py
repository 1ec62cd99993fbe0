"""cpprb's buffers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from itertools import cycle
from typing import Any

import cpprb

from workloads import Columns, EpisodeSpec, PrioritySpec, RowSpec

NAME = "cpprb"


def version() -> str:
    """The version of cpprb."""
    return metadata.version("cpprb")


def _layout(spec: RowSpec | EpisodeSpec) -> dict[str, dict[str, Any]]:
    fields = spec.row_fields if isinstance(spec, EpisodeSpec) else spec.fields
    return {field.name: {"shape": field.shape or 1, "dtype": field.dtype} for field in fields}


def _filled(spec: RowSpec | EpisodeSpec) -> cpprb.ReplayBuffer:
    buffer = cpprb.ReplayBuffer(spec.capacity, _layout(spec))
    for chunk in spec.chunks():
        buffer.add(**chunk)
    return buffer


def _sampler(spec: RowSpec | EpisodeSpec) -> Callable[[], Columns]:
    buffer = _filled(spec)
    return lambda: buffer.sample(spec.batch)


w1 = w3 = w4 = w5 = _sampler


def w2(spec: PrioritySpec) -> Callable[[], Columns]:
    """Prioritised sampling and update."""
    buffer = cpprb.PrioritizedReplayBuffer(spec.capacity, _layout(spec), alpha=spec.alpha)
    start, priorities = 0, spec.priorities()
    for chunk in spec.chunks():
        stop = start + len(chunk["done"])
        buffer.add(**chunk, priorities=priorities[start:stop])
        start = stop
    news = cycle(spec.new_priorities())

    def sample_and_update() -> Columns:
        batch = buffer.sample(spec.batch, spec.beta)
        buffer.update_priorities(batch["indexes"], next(news))
        return batch

    return sample_and_update


def _appender(spec: RowSpec) -> Callable[[], int]:
    buffer, step = _filled(spec), spec.step()
    return lambda: buffer.add(**step)


w6a = w6b = _appender
