"""Hindsight experience replay: transitions relabelled with achieved goals (Andrychowicz et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final, runtime_checkable

import numpy as np

from relive.errors import OptionError, SchemaError, StaleRows
from relive.memory.batch import Batch
from relive.memory.checks import is_number, real
from relive.memory.windows import OutputSpec, Transition, Window, WindowSpec
from relive.schema import Schema
from relive.types import Array

if TYPE_CHECKING:
    from relive.memory.memory import Memory

__all__ = ["Hindsight", "Relabelling", "relabelled", "unsaved"]

Judge: TypeAlias = Callable[[Array, Array], Any]
"""A function of achieved and desired goals ``[B, ...]`` to a value of each ``[B]``."""

_STRATEGIES = ("future", "final", "episode")
_TRIES = 100  # attempts at a batch that writers overwrite while it is relabelled
_LANE = 1 << 40  # serials of a lane, for places in order


def unsaved(_achieved: Array, _desired: Array) -> Any:
    """Refuse to relabel with a window that comes from a snapshot, which holds no functions."""
    remedy = "Pass it to Memory.load: window=Hindsight(..., reward=...)."
    raise OptionError("window", "have its reward function", "one from a snapshot, which holds none", remedy)


@runtime_checkable
class Relabelling(Window, Protocol):
    """A window that changes batches after they were read, such as ``Hindsight``."""

    def relabel(self, memory: Memory, batch: Batch, random: np.random.Generator) -> None:
        """Change a batch in place.

        Raises:
            StaleRows: If rows that it needs were overwritten meanwhile; another batch is drawn then.
        """


@final
@dataclass(frozen=True, slots=True)
class Hindsight:
    """Transitions of which some get the goal, reward and end of a goal that was achieved later (HER).

    A window: nothing is stored for it, and it works with every sampler, with ``Memory.prefetch`` and on shards. The
    memory holds ``obs`` with ``achieved_goal`` and ``desired_goal``, as Gymnasium's goal environments return it.
    ``relabelled [B]`` of a batch says which transitions were changed. ``Memory.read`` and ``Memory.epoch`` change none.

    Args:
        strategy: Which achieved goal replaces the desired one: ``"future"``: that of this step or a later one of the
            episode; ``"final"``: of the last; ``"episode"``: of any. Of an unfinished or partly overwritten episode,
            the steps held.
        k: The paper's k: of ``k + 1`` transitions, ``k`` are relabelled.
        reward: The reward function of achieved and desired goals. Snapshots do not hold it: pass the window to
            ``Memory.load`` again.
        terminated: Whether reaching the goal terminates the episode, as such a function; None: relabelling leaves
            terminations as they are.

    >>> import relive as rl
    >>> schema = rl.Schema(obs={"achieved_goal": rl.Field((1,)), "desired_goal": rl.Field((1,))}, reward=rl.Field())
    >>> reached = lambda achieved, desired: (achieved == desired).all(axis=1) - 1.0
    >>> memory = rl.Memory(schema, capacity=10, window=rl.Hindsight("final", k=1000, reward=reached), seed=0)
    >>> for t in range(3):
    ...     goals = {"achieved_goal": [t], "desired_goal": [9]}
    ...     ends = {"terminated": False, "truncated": t == 2}
    ...     final = {"final_obs": {"achieved_goal": [3], "desired_goal": [9]}} if t == 2 else {}
    ...     memory.append(obs=goals, reward=-1.0, **ends, **final)
    >>> memory.sample(3).obs.desired_goal.ravel().tolist()
    [3.0, 3.0, 3.0]
    """

    strategy: Literal["future", "final", "episode"] = "future"
    k: float = 4.0
    reward: Judge = field(kw_only=True, repr=False)
    terminated: Judge | None = field(default=None, kw_only=True, repr=False)
    gamma: float = field(default=0.99, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, str) or self.strategy not in _STRATEGIES:
            raise OptionError("strategy", f"be one of {', '.join(_STRATEGIES)}", repr(self.strategy))
        if not is_number(self.k) or not 0 <= self.k < float("inf"):
            raise OptionError("k", "be finite and at least 0", self.k)
        object.__setattr__(self, "gamma", real("gamma", self.gamma, 0, 1))
        for name, judge in {"reward": self.reward, "terminated": self.terminated}.items():
            if not callable(judge) and not (name == "terminated" and judge is None):
                raise OptionError(name, "be a function of goals", type(judge).__name__)

    def spec(self) -> WindowSpec:
        """The window as the core takes it: that of a transition."""
        return Transition(self.gamma).spec()

    def outputs(self, schema: Schema, stack: Mapping[str, int]) -> list[OutputSpec]:
        """The arrays of a batch as the core takes them."""
        keys = {column.key for column in schema}
        missing = [key for key in ("obs/achieved_goal", "obs/desired_goal", "reward") if key not in keys]
        if missing:
            remedy = "Observations are the dictionary that Gymnasium's goal environments return."
            raise SchemaError("schema", f"have {' and '.join(missing)} for hindsight", str(schema), remedy)
        if schema["reward"].role != "reward" or schema["reward"].shape != ():
            raise SchemaError("reward", "be one number a step for hindsight", str(schema))
        if "relabelled" in keys:
            raise SchemaError("relabelled", "not be a field, since hindsight adds it to batches", "one", "Rename it.")
        return Transition(self.gamma).outputs(schema, stack)

    def relabel(self, memory: Memory, batch: Batch, random: np.random.Generator) -> None:
        """Relabel ``k`` of ``k + 1`` transitions of a batch.

        Raises:
            StaleRows: If their episodes were overwritten meanwhile.
        """
        batch["relabelled"] = random.random(batch.size) < self.k / (self.k + 1)
        chosen = np.flatnonzero(batch["relabelled"])
        if not len(chosen):
            return
        goal = self._goals(memory, batch["lanes"][chosen], batch["serials"][chosen], random.random(len(chosen)))
        achieved = batch["next_obs"]["achieved_goal"][chosen]
        reward = _evaluated("reward", self.reward, achieved, goal)
        for name in ("obs", "next_obs"):
            batch[name]["desired_goal"][chosen] = goal
        batch["reward"][chosen] = reward
        if self.terminated is not None:
            ends = _evaluated("terminated", self.terminated, achieved, goal).astype(bool)
            batch["terminated"][chosen] = ends
            batch["discount"][chosen] = np.where(ends, 0.0, self.gamma)
            batch["truncated"][chosen] &= ~ends

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


def _evaluated(name: str, judge: Judge, achieved: Array, goal: Array) -> Array:
    found = np.asarray(judge(achieved, goal))
    if found.shape != (len(goal),):
        raise OptionError(name, f"give a value of each goal, {[len(goal)]}", list(found.shape))
    return found


def relabelled(memory: Memory, window: Relabelling, draw: Callable[[], Batch]) -> Batch:
    """A batch that was drawn and relabelled, by random numbers that follow from the memory's state and the rows."""
    for _ in range(_TRIES):
        state = memory.random_state
        batch = draw()
        # With the rows, since two threads may read the same state.
        seed = [state["key0"], state["key1"], state["batches"], int(batch["serials"].sum())]
        with suppress(StaleRows):
            window.relabel(memory, batch, np.random.default_rng(seed))
            return batch
    raise OptionError("memory", "keep rows for longer than reading them takes", f"{_TRIES} batches overwritten")
