"""The live view of shards as plain data: the state of each, and of the limiter."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, final

from relive.distributed.cluster import Shards

__all__ = ["ShardsView"]

_SHOWN = ("steps", "ready", "full", "nbytes", "total", "inserted", "batches", "dropped", "pid", "failure")
_PATIENCE = 2.0  # seconds for shards to answer


@final
class ShardsView:
    """The live view of the shards of a cluster."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data for the question ``summary``."""
        if asked.get("what") != "summary":
            return {"error": "memory must be of one process for its rows to be shown, got shards"}
        state = self._shards.state(timeout=_PATIENCE)
        shards = [None if each is None else {key: each[key] for key in _SHOWN} for each in state["shards"]]
        counts = {key: state[key] for key in ("steps", "inserted", "sampled")}
        return {"time": time.time(), "shards": shards, **counts, "limiter": self._limiter(state)}

    def close(self) -> None:
        """Nothing: the shards are their owner's."""

    def _limiter(self, state: Mapping[str, Any]) -> dict[str, Any] | None:
        limiter = self._shards.limiter
        if limiter is None:
            return None
        beyond = state["inserted"] - limiter.min_size
        ratio = state["sampled"] / beyond if beyond > 0 else None
        return {"samples": limiter.samples, "min_size": limiter.min_size, "slack": limiter.slack, "ratio": ratio}
