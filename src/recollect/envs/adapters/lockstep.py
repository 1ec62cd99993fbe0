"""Several environments one after another, as if they were one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from recollect.envs.adapters.one import One, Outcome, stack
from recollect.envs.dice import seeds_for
from recollect.envs.interface import Array, Step, as_actions, pick, schema_of
from recollect.errors import OptionError

__all__ = ["Lockstep", "check_alike", "check_started", "gather", "split"]


@final
class Lockstep:
    """Environments that step one after another in this process."""

    def __init__(self, ones: Sequence[One]) -> None:
        check_alike(ones)
        self._ones = list(ones)
        first = ones[0]
        self.name = first.name
        self.num_envs = len(ones)
        self.groups = first.groups
        self.state_space = first.state_space
        self.shared_reward = first.shared_reward
        self.limit = first.limit
        self.schema = schema_of(first.groups, first.state_space, shared_reward=first.shared_reward)
        self._seen: dict[str, Array] = {}

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Begin new episodes everywhere and return what is seen."""
        each = [None] * self.num_envs if seed is None else seeds_for(seed, self.num_envs)
        self._seen = stack([one.reset(start) for one, start in zip(self._ones, each, strict=True)])
        return self._seen

    def step(self, action: Mapping[str, Any] | Any) -> Step:
        """Take a step everywhere; where an episode ends the next one begins."""
        check_started(self._seen)
        given = split(as_actions(self.groups, action), self.num_envs)
        outcomes = [one.step(part) for one, part in zip(self._ones, given, strict=True)]
        begun = [
            one.reset() if o.terminated or o.truncated else None for one, o in zip(self._ones, outcomes, strict=True)
        ]
        step = gather(self._seen, as_actions(self.groups, action), outcomes, begun)
        self._seen = step.seen
        return step

    def render(self, index: int = 0) -> Array:
        """A picture of one environment."""
        return self._ones[index].render()

    def close(self) -> None:
        """Close all."""
        for one in self._ones:
            one.close()


def check_alike(ones: Sequence[One]) -> None:
    """Refuse environments that cannot be in lockstep."""
    if not ones:
        raise OptionError("environments", "be at least one", "none")
    for index, one in enumerate(ones):
        for part in ("groups", "state_space", "shared_reward"):
            if getattr(one, part) != getattr(ones[0], part):
                raise OptionError(f"environment {index}", f"have the {part} of the first", getattr(one, part))


def check_started(seen: Mapping[str, Array]) -> None:
    """Refuse a step before the first episode."""
    if not seen:
        raise OptionError("reset", "be called before step", "step")


def split(action: Mapping[str, Any], num_envs: int) -> list[dict[str, Array]]:
    """Actions of every environment by itself."""
    arrays = {key: np.asarray(value) for key, value in action.items()}
    for key, value in arrays.items():
        if value.shape[:1] != (num_envs,):
            raise OptionError(key, f"have {num_envs} environments first", list(value.shape))
    return [{key: value[index] for key, value in arrays.items()} for index in range(num_envs)]


def gather(
    before: Mapping[str, Array],
    action: Mapping[str, Any],
    outcomes: Sequence[Outcome],
    begun: Sequence[dict[str, Array] | None],
) -> Step:
    """One step of all from the steps of each.

    Args:
        before: What was seen before the step.
        begun: What is seen in the next episode where one has begun.
    """
    terminated = np.array([outcome.terminated for outcome in outcomes])
    truncated = np.array([outcome.truncated and not outcome.terminated for outcome in outcomes])
    after = stack([outcome.seen for outcome in outcomes])
    row: dict[str, Any] = {**before, **{key: np.asarray(value) for key, value in action.items()}}
    row |= stack([outcome.reward for outcome in outcomes])
    row["terminated"], row["truncated"] = terminated, truncated
    seen = after
    ended = np.flatnonzero(terminated | truncated).tolist()
    if ended:
        row |= {_final(key): value for key, value in after.items()}
        seen = {key: value.copy() for key, value in after.items()}
        for index in ended:
            fresh = begun[index]
            if fresh is not None:
                for key, value in fresh.items():
                    seen[key][index] = value
    return Step(seen, row, terminated, truncated, _infos([outcome.info for outcome in outcomes]))


def keep_lanes(step_row: Mapping[str, Any], lanes: Array) -> dict[str, Any]:
    """The part of a row that some lanes wrote."""
    return {"lanes": lanes, **pick(step_row, lanes)}


def _final(key: str) -> str:
    for name in ("obs", "avail_actions", "agent_mask", "state"):
        for place, part in enumerate(parts := key.split("/")):
            if part == name and place < 2:
                return "/".join((*parts[:place], f"final_{name}", *parts[place + 1 :]))
    raise AssertionError(key)


def _infos(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers that environments report, ``[E]``; NaN where one does not."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for info in infos for key in info):
        values = [info.get(key) for info in infos]
        if all(value is None or (np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf") for value in values):
            missing = any(value is None for value in values)
            found[key] = np.array([np.nan if value is None else value for value in values], float if missing else None)
    return found
