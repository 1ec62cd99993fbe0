"""Collecting experience: an actor and its environments, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from relive.agents.interface import Actor, Algorithm, Experience, Weights
from relive.envs.checks import check_finite, guarded
from relive.envs.interface import Env, Snapshots, Step
from relive.memory import Memory
from relive.training.metrics import EpisodeReturns
from relive.training.settings import RunConfig
from relive.training.sharded import RunMemory, ShardedMemory
from relive.types import Array, Arrays

__all__ = ["ActorTask", "Collected", "Collector", "Going", "LocalCollector", "act_and_append", "reset_mask"]


class Collected(NamedTuple):
    """The result of one ``collect`` call."""

    steps: int
    episodes: int
    returns: Arrays
    """Returns and lengths of the episodes that ended, by name."""


class Going(NamedTuple):
    """What is going on in environments, to go on with later."""

    actor: Mapping[str, Any]
    """The actor's state."""
    env: Mapping[str, Any] | None
    """The environments' snapshot; None: they have none, and are reset."""
    returns: Mapping[str, Any]
    """Returns of open episodes."""


@dataclass(frozen=True)
class ActorTask:
    """What an actor in another process is started with."""

    index: int
    env: str
    algorithm: Algorithm
    run: RunConfig
    lanes: tuple[int, int]
    """Its lanes: the first, and the one after the last."""
    seed: int


class Films(Protocol):
    """Records environment snapshots at episode starts."""

    @property
    def recording(self) -> bool:
        """Whether to record the next episodes that start."""

    def note(self, env: Env, begun: Array, memory: Memory) -> None:
        """Record environments in which an episode starts, ``[E]``."""


class Collector(Protocol):
    """Steps environments and writes to the memory."""

    obs: Arrays
    """Current observations by field name; empty if environments are in other processes."""

    def collect(self, steps: int) -> Collected:
        """Step all environments, or fetch what other processes collected meanwhile.

        Args:
            steps: Environment steps so far.
        """

    def publish(self, weights: Weights, updates: int) -> None:
        """Send weights and the number of updates to actors."""

    def begin(self, seed: int) -> None:
        """Reset all environments."""

    def resume(self, memory: RunMemory, going: Going, seed: int) -> None:
        """Resume from a state; environments without snapshots are reset."""

    def state(self) -> Going:
        """What ``resume`` goes on from."""

    def metrics(self) -> dict[str, float]:
        """Further metrics to log."""

    def close(self) -> None:
        """Release environments and processes."""


@final
class LocalCollector:
    """An actor and its environments."""

    def __init__(self, env: Env, actor: Actor, memory: Experience) -> None:
        self._env, self._actor, self._memory = env, actor, memory
        self._returns = EpisodeReturns(env)
        self.obs: Arrays = {}
        self.films: Films | None = None
        """Recorder of episode starts, for films; None: not recorded."""

    def begin(self, seed: int) -> None:
        """Reset all environments."""
        self.obs = guarded(self._env.name, "reset", lambda: self._env.reset(seed=seed))
        check_finite(self._env, self.obs, 0)

    def resume(self, memory: RunMemory, going: Going, seed: int) -> None:
        """Resume from a state; environments without snapshots are reset."""
        assert not isinstance(memory, ShardedMemory)
        self._memory = memory
        self._actor.load_state_dict(going.actor)
        if going.env is not None and isinstance(self._env, Snapshots):
            self.obs = self._env.restore(going.env)
            self._returns.load_state_dict(going.returns)
            return
        self.begin(seed)
        self._memory.cut()
        self._actor.reset(np.ones(self._env.num_envs, bool))

    def collect(self, steps: int) -> Collected:
        """One step of all environments."""
        step = act_and_append(self._env, self._actor, self._memory, self.obs, steps)
        self.obs = step.obs
        returns = self._returns.add(step)
        if self.films is not None and self.films.recording and isinstance(self._memory, Memory):
            self.films.note(self._env, step.ended, self._memory)
        return Collected(self._env.num_envs, len(returns["length"]) if returns else 0, returns)

    def publish(self, weights: Weights, updates: int) -> None:  # noqa: ARG002 - for actors elsewhere
        """The actor takes them at once."""
        self._actor.load(weights)

    def state(self) -> Going:
        """What ``resume`` goes on from."""
        kept = self._env.snapshot() if isinstance(self._env, Snapshots) else None
        return Going(self._actor.state_dict(), kept, self._returns.state_dict())

    def metrics(self) -> dict[str, float]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Close the environments."""
        self._env.close()


def act_and_append(
    env: Env, actor: Actor, memory: Experience, obs: Arrays, steps: int, lanes: Array | None = None
) -> Step:
    """Step environments once and append the rows.

    Args:
        lanes: Lanes of the memory that these environments write to; None: all.
    """
    action, extras = actor.act(obs, steps)
    step = guarded(env.name, "step", lambda: env.step(action))
    check_finite(
        env, {key: value for key, value in step.row.items() if key not in obs}, steps
    )  # observations were checked at the last step
    check_finite(env, step.obs, steps)
    row, some = step.row, step.row.get("lanes")
    if some is not None:
        extras = {key: values[some] for key, values in extras.items()}
    if lanes is not None:
        row = {**row, "lanes": lanes if some is None else lanes[some]}
    memory.append(**row, **extras)
    mask = reset_mask(step)
    if mask.any():
        actor.reset(mask)
    return step


def reset_mask(step: Step) -> Array:
    """Where an episode ended, or where a step only reset the environment, ``[E]``."""
    lanes = step.row.get("lanes")
    if lanes is None:
        return step.ended
    rows = np.ones(len(step.ended), bool)
    rows[lanes] = step.ended[lanes]
    return rows
