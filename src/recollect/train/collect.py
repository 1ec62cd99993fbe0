"""Collecting experience: an actor and its environments, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from recollect.agents.interface import Actor, Experience, Weights
from recollect.envs.checks import check_finite, guarded
from recollect.envs.interface import Env, Snapshots, Step
from recollect.memory import Memory
from recollect.train.metrics import EpisodeReturns
from recollect.train.sharded import RunMemory, ShardedMemory

__all__ = ["Collected", "Collector", "LocalCollector", "act_and_append", "reset_mask"]


class Collected(NamedTuple):
    """What was collected at once."""

    steps: int
    episodes: int
    returns: Mapping[str, Any]
    """Returns and lengths of the episodes that ended, by name."""


class Films(Protocol):
    """What keeps how worlds stood as episodes began."""

    @property
    def wanted(self) -> bool:
        """Whether to be told of the next ones that begin."""

    def note(self, env: Env, begun: Any, memory: Memory) -> None:
        """Keep how environments stand in which an episode begins now, ``[E]``."""


class Collector(Protocol):
    """What steps environments and writes to the memory."""

    obs: Mapping[str, Any]
    """What environments show now, by field name; empty where they are in other processes."""

    def collect(self, steps: int) -> Collected:
        """Go on by a step, or take in what others did meanwhile.

        Args:
            steps: Environment steps so far.
        """

    def publish(self, weights: Weights, updates: int) -> None:
        """Let actors have weights, and know how many updates there were."""

    def begin(self, seed: int) -> None:
        """Begin episodes everywhere."""

    def resume(
        self,
        memory: RunMemory,
        actor: Mapping[str, Any],
        env: Mapping[str, Any] | None,
        returns: Mapping[str, Any],
        seed: int,
    ) -> None:
        """Go on from a state; environments that could not be kept begin anew."""

    def state(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, list[float]]]:
        """The actor's state, the environments' if they can be kept, and returns of episodes that go on."""

    def metrics(self) -> dict[str, float]:
        """What else there is to log, by name."""

    def close(self) -> None:
        """Let go of environments and processes."""


@final
class LocalCollector:
    """An actor and its environments."""

    def __init__(self, env: Env, actor: Actor, memory: Experience) -> None:
        self._env, self._actor, self._memory = env, actor, memory
        self._returns = EpisodeReturns(env)
        self.obs: Mapping[str, Any] = {}
        self.films: Films | None = None
        """Where to keep how episodes began, if somebody may want to see them again."""

    def begin(self, seed: int) -> None:
        """Begin episodes everywhere."""
        self.obs = guarded(self._env.name, "reset", lambda: self._env.reset(seed=seed))
        check_finite(self._env, self.obs, 0)

    def resume(
        self,
        memory: RunMemory,
        actor: Mapping[str, Any],
        env: Mapping[str, Any] | None,
        returns: Mapping[str, Any],
        seed: int,
    ) -> None:
        """Go on from a state; environments that could not be kept begin anew."""
        assert not isinstance(memory, ShardedMemory)
        self._memory = memory
        self._actor.load_state_dict(actor)
        if env is not None and isinstance(self._env, Snapshots):
            self.obs = self._env.restore(env)
            self._returns.load_state_dict(returns)
            return
        self.begin(seed)
        self._memory.cut()
        self._actor.reset(np.ones(self._env.num_envs, bool))

    def collect(self, steps: int) -> Collected:
        """One step of all environments."""
        step = act_and_append(self._env, self._actor, self._memory, self.obs, steps)
        self.obs = step.obs
        returns = self._returns.add(step)
        if self.films is not None and self.films.wanted and isinstance(self._memory, Memory):
            self.films.note(self._env, step.ended, self._memory)
        return Collected(self._env.num_envs, len(returns["length"]) if returns else 0, returns)

    def publish(self, weights: Weights, updates: int) -> None:  # noqa: ARG002 - for actors elsewhere
        """The actor takes them at once."""
        self._actor.load(weights)

    def state(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, list[float]]]:
        """The actor's state, the environments' if they can be kept, and returns of episodes that go on."""
        kept = self._env.snapshot() if isinstance(self._env, Snapshots) else None
        return self._actor.state_dict(), kept, self._returns.state_dict()

    def metrics(self) -> dict[str, float]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Close the environments."""
        self._env.close()


def act_and_append(
    env: Env, actor: Actor, memory: Experience, obs: Mapping[str, Any], steps: int, lanes: Any = None
) -> Step:
    """One step of some environments, which goes to the memory.

    Args:
        lanes: Lanes of the memory that these environments write to; None: all.
    """
    action, extras = actor.act(obs, steps)
    step = guarded(env.name, "step", lambda: env.step(action))
    check_finite(env, {key: value for key, value in step.row.items() if key not in obs}, steps)  # those were checked
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


def reset_mask(step: Step) -> Any:
    """Where an episode ended, or where a step only began the next one, ``[E]``."""
    lanes = step.row.get("lanes")
    if lanes is None:
        return step.ended
    rows = np.ones(len(step.ended), bool)
    rows[lanes] = step.ended[lanes]
    return rows
