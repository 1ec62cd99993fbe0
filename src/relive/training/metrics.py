"""Training metrics between two log lines: means, episode returns, speed, replay age and replay ratio."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from relive.envs.interface import Env, Step
from relive.memory import Memory, Shuffled
from relive.training.sharded import RunMemory
from relive.types import Array, Arrays

__all__ = ["PREFIXES", "EpisodeReturns", "Since", "evaluations", "replay_age", "reward_names"]

PREFIXES = ("train", "time", "memory", "cluster", "info")
"""What begins the names of all that is not the result of an evaluation."""

_PROBE = 64  # samples that the age of replayed rows is taken from

SAMPLES = "samples"
"""What a learner calls the number of steps that an update learned from, if it says so."""


def reward_names(env: Env) -> dict[str, str]:
    """Rewards by the names of their returns: one for all, or one a group."""
    return {"return": "reward"} if env.shared_reward else {g.key("return"): g.key("reward") for g in env.groups}


def evaluations(lines: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Lines that evaluations wrote, the names of returns in them, and those of what else environments report."""
    found = [line for line in lines if any(name.split("/")[-1] == "return" and _own(name) for name in line)]
    names = list(dict.fromkeys(name for line in found for name in line if _own(name)))
    returns = [name for name in names if name.split("/")[-1] == "return"]
    return found, returns, [name for name in names if name not in (*returns, "length", "step")]


def _own(name: str) -> bool:
    return name.split("/")[0] not in PREFIXES


@final
class EpisodeReturns:
    """Training returns of episodes, per agent of each group."""

    def __init__(self, env: Env) -> None:
        self._names = reward_names(env)
        self._running = {name: np.zeros(env.num_envs) for name in self._names}
        self._length = np.zeros(env.num_envs)

    def add(self, step: Step) -> dict[str, Array]:
        """Add a step; returns the returns and lengths of the episodes that it ended, by name."""
        rows = step.row.get("lanes", ...)
        for name, key in self._names.items():
            values = step.row[key]
            self._running[name][rows] += values if values.ndim == 1 else values.mean(axis=1)
        self._length[rows] += 1
        ended = step.ended
        if not ended.any():
            return {}
        found = {**self._running, "length": self._length}
        done = {name: values[ended] for name, values in found.items()}
        for values in found.values():
            values[ended] = 0
        return done

    def state_dict(self) -> dict[str, list[float]]:
        """Returns so far of open episodes."""
        return {name: values.tolist() for name, values in {**self._running, "length": self._length}.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        for name, values in {**self._running, "length": self._length}.items():
            values[:] = state[name]


@final
class Since:
    """Means since the last log line."""

    def __init__(self, steps: int, updates: int) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._samples = 0.0
        self._steps, self._updates, self._time = steps, updates, time.monotonic()
        self._began, self._began_cpu = time.monotonic(), time.process_time()

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add the metrics of an update."""
        for name, value in metrics.items():
            if name == SAMPLES:
                self._samples += value
                continue
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1

    def add_episodes(self, returns: Arrays) -> None:
        """Add the returns of ended episodes."""
        for name, values in returns.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(values.sum())
            self._counts[name] = self._counts.get(name, 0) + len(values)

    def take(self, steps: int, updates: int, memory: RunMemory) -> dict[str, float]:
        """The means, and metrics of speed and memory; resets the means."""
        passed, done = max(time.monotonic() - self._time, 1e-9), steps - self._steps
        found = {f"train/{name}": total / self._counts[name] for name, total in self._sums.items()}
        found["time/steps_per_second"] = done / passed
        found["time/updates_per_second"] = (updates - self._updates) / passed
        found["time/seconds"], found["time/cpu_seconds"] = self._spent()
        if self._samples and done:
            found["memory/reuse"] = self._samples / done
        age = replay_age(memory)
        if age is not None:
            found["memory/age"] = age
        self._sums, self._counts, self._samples = {}, {}, 0.0
        self._steps, self._updates, self._time = steps, updates, time.monotonic()
        return found

    def _spent(self) -> tuple[float, float]:
        """Wall-clock and CPU seconds of the run, those before it was resumed included."""
        return time.monotonic() - self._began, time.process_time() - self._began_cpu

    def state_dict(self) -> dict[str, Any]:
        """The sums so far, as data."""
        parts = {"sums": self._sums, "counts": self._counts, "samples": self._samples, "steps": self._steps}
        return {**parts, "spent": self._spent()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        self._sums, self._counts = dict(state["sums"]), dict(state["counts"])
        self._samples, self._steps = state["samples"], state["steps"]
        seconds, cpu = state["spent"]
        self._began, self._began_cpu = self._began - seconds, self._began_cpu - cpu


def replay_age(memory: RunMemory) -> float | None:
    """The mean age of sampled rows, in environment steps; None if nothing can be sampled yet."""
    if not isinstance(memory, Memory) or isinstance(memory.sampler, Shuffled) or not memory.ready:
        return None
    state = memory.random_state
    batch = memory.sample(min(_PROBE, memory.ready))
    memory.random_state = state
    episodes = memory.episodes
    heads = np.zeros(memory.lanes, np.int64)
    np.maximum.at(heads, episodes.lane, episodes.start + episodes.length)
    return float((heads[batch.lanes] - batch.serials).mean() * memory.lanes)
