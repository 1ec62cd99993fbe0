"""Hindsight experience replay: transitions relabelled with achieved goals (Andrychowicz et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, final

import numpy as np

from relive.errors import OptionError, StaleRows
from relive.memory.batch import Batch
from relive.memory.checks import whole
from relive.memory.memory import Memory
from relive.memory.windows import NStep, Transition
from relive.types import Array

__all__ = ["Hindsight"]

Judge: TypeAlias = Callable[[Array, Array], Any]
"""A function of achieved and desired goals ``[B, ...]`` to a value of each ``[B]``."""

_STRATEGIES = ("future", "final", "episode")
_TRIES = 100  # attempts at a batch that writers overwrite while it is read
_LANE = 1 << 40  # serials of a lane, for places in order


@final
class Hindsight:
    """HER as a way of sampling: some transitions get the goal, reward and end of a goal that was achieved later.

    Nothing is stored for it. The memory holds ``obs`` with ``achieved_goal`` and ``desired_goal``, as Gymnasium's goal
    environments return it, and reads single steps.

    Args:
        strategy: Which achieved goal replaces the desired one: ``"future"``: that of this step or a later one of the
            episode; ``"final"``: of the last; ``"episode"``: of any. Of an unfinished or partly overwritten episode,
            the steps held.
        k: The paper's k: of ``k + 1`` transitions, ``k`` are relabelled.
        reward: The reward function of achieved and desired goals.
        terminated: Whether reaching the goal terminates the episode, as such a function; None: relabelling leaves
            terminations as they are.
        seed: Seed of the relabelling. None: a random one.

    >>> import relive as rl
    >>> schema = rl.Schema(obs={"achieved_goal": rl.Field((1,)), "desired_goal": rl.Field((1,))}, reward=rl.Field())
    >>> memory = rl.Memory(schema, capacity=10, seed=0)
    >>> for t in range(3):
    ...     goals = {"achieved_goal": [t], "desired_goal": [9]}
    ...     ends = {"terminated": False, "truncated": t == 2}
    ...     final = {"final_obs": {"achieved_goal": [3], "desired_goal": [9]}} if t == 2 else {}
    ...     memory.append(obs=goals, reward=-1.0, **ends, **final)
    >>> reached = lambda achieved, desired: (achieved == desired).all(axis=1) - 1.0
    >>> batch = rl.Hindsight("final", k=1000, reward=reached, seed=0).sample(memory, 3)
    >>> batch.obs.desired_goal.ravel().tolist()
    [3.0, 3.0, 3.0]
    """

    def __init__(
        self,
        strategy: Literal["future", "final", "episode"] = "future",
        k: float = 4,
        *,
        reward: Judge,
        terminated: Judge | None = None,
        seed: int | None = None,
    ) -> None:
        if strategy not in _STRATEGIES:
            raise OptionError("strategy", f"be one of {', '.join(_STRATEGIES)}", repr(strategy))
        if not np.isfinite(k) or k < 0:
            raise OptionError("k", "be finite and at least 0", k)
        for name, judge in {"reward": reward, "terminated": terminated}.items():
            if not callable(judge) and not (name == "terminated" and judge is None):
                raise OptionError(name, "be a function of goals", type(judge).__name__)
        self.strategy, self.k = strategy, float(k)
        self._reward, self._terminated = reward, terminated
        self._seed = whole("seed", np.random.SeedSequence().entropy % 2**63 if seed is None else seed, 0, 2**63 - 1)  # type: ignore[operator]
        self._batches = 0

    @property
    def random_state(self) -> dict[str, int]:
        """The seed and the number of batches drawn; restoring it repeats the same draws."""
        return {"seed": self._seed, "batches": self._batches}

    @random_state.setter
    def random_state(self, state: Mapping[str, int]) -> None:
        self._seed = whole("seed", state["seed"], 0, 2**63 - 1)
        self._batches = whole("batches", state["batches"], 0, 2**63 - 1)

    def sample(self, memory: Memory, size: int) -> Batch:
        """Draw ``size`` transitions by the memory's sampler and relabel some.

        ``relabelled [B]`` says which.
        """
        _check(memory)
        for _ in range(_TRIES):
            random = np.random.default_rng([self._seed, self._batches])
            self._batches += 1
            batch = memory.sample(size)
            chosen = np.flatnonzero(random.random(size) < self.k / (self.k + 1))
            lanes, serials = batch["lanes"][chosen], batch["serials"][chosen]
            try:
                goal = self._goals(memory, lanes, serials, random.random(len(chosen))) if len(chosen) else None
            except StaleRows:  # written over meanwhile, by another thread or process
                continue
            batch["relabelled"] = np.zeros(size, bool)
            if goal is not None:
                self._relabel(batch, chosen, goal, _gamma(memory))
            return batch
        raise OptionError("memory", "keep rows for longer than reading them takes", f"{_TRIES} batches overwritten")

    def _goals(self, memory: Memory, lanes: Array, serials: Array, where: Array) -> Array:
        """A goal achieved in the same episode, for each row."""
        episodes = memory.episodes
        place = np.searchsorted(episodes.lane * _LANE + episodes.start, lanes * _LANE + serials, side="right") - 1
        there = (place >= 0) & (episodes.lane[place] == lanes) & (serials < (episodes.start + episodes.length)[place])
        if not there.all():
            raise StaleRows("rows", "be of episodes that are held still", "some that were overwritten meanwhile")
        over = episodes.terminated | episodes.truncated
        last = (episodes.start + episodes.length - np.where(over, 1, 2))[place]  # an open one's newest is incomplete
        last = np.maximum(last, serials)
        first = serials
        if self.strategy == "final":
            first = last
        elif self.strategy == "episode":
            first = np.where(episodes.whole, episodes.start, serials.max())[place]
            first = np.minimum(first, serials)
        meant = first + np.floor(where * (last - first + 1)).astype(np.int64)
        return np.asarray(memory.read(lanes, np.minimum(meant, last))["next_obs"]["achieved_goal"])

    def _relabel(self, batch: Batch, chosen: Array, goal: Array, gamma: float) -> None:
        achieved = batch["next_obs"]["achieved_goal"][chosen]
        for name in ("obs", "next_obs"):
            batch[name]["desired_goal"][chosen] = goal
        batch["reward"][chosen] = self._evaluated("reward", self._reward, achieved, goal)
        if self._terminated is not None:
            ends = self._evaluated("terminated", self._terminated, achieved, goal).astype(bool)
            batch["terminated"][chosen] = ends
            batch["discount"][chosen] = np.where(ends, 0.0, gamma)
            batch["truncated"][chosen] &= ~ends
        batch["relabelled"][chosen] = True

    @staticmethod
    def _evaluated(name: str, judge: Judge, achieved: Array, goal: Array) -> Array:
        found = np.asarray(judge(achieved, goal))
        if found.shape != (len(goal),):
            raise OptionError(name, f"give a value of each goal, {[len(goal)]}", list(found.shape))
        return found


def _gamma(memory: Memory) -> float:
    window: Any = memory.window
    return float(window.gamma)


def _check(memory: Memory) -> None:
    window = memory.window
    if not isinstance(window, Transition) and not (isinstance(window, NStep) and window.n == 1):
        remedy = "Rewards in between would be of the old goal."
        raise OptionError("window", "be Transition() or NStep(1) for hindsight", window, remedy)
    missing = [key for key in ("obs/achieved_goal", "obs/desired_goal") if key not in memory]
    if missing:
        raise OptionError("schema", "have obs with achieved_goal and desired_goal", f"none of {', '.join(missing)}")
