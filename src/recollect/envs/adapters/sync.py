"""Several environments one after another, as if they were one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from recollect.envs.adapters.single_env import SingleEnv, SingleStep, is_number, leaves, stack
from recollect.envs.checks import guarded
from recollect.envs.dice import seeds_for
from recollect.envs.interface import AgentGroup, Array, Goals, Step, as_actions, numbers, schema_of
from recollect.errors import OptionError
from recollect.schema import Schema

__all__ = ["SyncEnvs", "check_actions", "check_alike", "check_started", "final_names", "gather"]


@final
class SyncEnvs:
    """Environments that step one after another in this process."""

    def __init__(self, ones: Sequence[SingleEnv]) -> None:
        check_alike(ones)
        self._ones = list(ones)
        first = ones[0]
        self.name = first.name
        self.num_envs = len(ones)
        self.groups = first.groups
        self.state_space = first.state_space
        self.shared_reward = first.shared_reward
        self.max_episode_steps = first.max_episode_steps
        self.schema = schema_of(first.groups, first.state_space, shared_reward=first.shared_reward)
        self._finals = final_names(self.schema)
        self.report_names: tuple[str, ...] = getattr(first, "report_names", ())
        if isinstance(first, Goals):
            self.compute_reward, self.compute_terminated = first.compute_reward, first.compute_terminated
        self.at_end: Callable[[int], None] | None = None
        """Called with the index of an environment whose episode is over, while ``render`` still shows how it ended."""
        self._seen: dict[str, Array] = {}

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Begin new episodes everywhere and return what is seen."""
        each = [None] * self.num_envs if seed is None else seeds_for(seed, self.num_envs)
        self._seen = {}  # if one fails, none goes on before a reset that does not
        self._seen = stack([self._reset(index, start) for index, start in enumerate(each)])
        return dict(self._seen)

    def step(self, action: Mapping[str, Any] | Any) -> Step:
        """Take a step everywhere; where an episode ends the next one begins."""
        check_started(self._seen)
        given = check_actions(self.groups, as_actions(self.groups, action), self.num_envs)
        before, self._seen = self._seen, {}
        outcomes, begun = [], []
        for index, one in enumerate(self._ones):
            chosen = {key: value[index] for key, value in given.items()}
            outcome = guarded(self._called(index), "step", partial(one.step, chosen))
            outcomes.append(outcome)
            over = outcome.terminated or outcome.truncated
            if over and self.at_end is not None:
                self.at_end(index)
            begun.append(self._reset(index, None) if over else None)
        step = gather(before, given, outcomes, begun, self._finals)
        self._seen = dict(step.obs)
        return step

    def _reset(self, index: int, seed: int | None) -> dict[str, Array]:
        return guarded(self._called(index), "reset", lambda: self._ones[index].reset(seed))

    def _called(self, index: int) -> str:
        return f"environment {index} ({self.name})"

    def render(self, index: int = 0) -> Array:
        """A picture of one environment."""
        return self._ones[index].render()

    def close(self) -> None:
        """Close all."""
        for one in self._ones:
            one.close()


def check_alike(ones: Sequence[SingleEnv]) -> None:
    """Refuse environments that cannot be stepped together."""
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


def check_actions(groups: Sequence[AgentGroup], action: Mapping[str, Any], num_envs: int) -> dict[str, Array]:
    """The actions of all environments as arrays of their own, if agents can take them: ``[E, A, ...]`` each."""
    found: dict[str, Array] = {}
    for group in groups:
        for key, space in leaves(group.action_space, group.key("action")).items():
            if key not in action:
                raise OptionError("action", f"have {key}", ", ".join(action))
            value = numbers(key, action[key]).copy()
            shape = (num_envs, len(group), *(space.shape or ()))
            if value.shape != shape:
                raise OptionError(key, f"have shape {list(shape)}", list(value.shape))
            if value.dtype.kind not in ("f" if isinstance(space, spaces.Box) else "") + "biu":
                raise OptionError(key, "be whole numbers", value.dtype)
            low, high = _bounds(space)
            wrong = (value < low) | (value > high)
            if wrong.any():
                raise OptionError(key, f"be from {np.min(low)} to {np.max(high)}", value[wrong][0])
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise OptionError(key, "be finite", value[~np.isfinite(value)][0])
            found[key] = value
    extra = sorted(set(action) - set(found))
    if extra:
        raise OptionError("action", f"have {', '.join(found)}", f"also {', '.join(extra)}")
    return found


def _bounds(space: Space[Any]) -> tuple[Any, Any]:
    """Lowest and highest value; boxes are not held to theirs, which environments clip to or not."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return 0, 1
    return -np.inf, np.inf


def final_names(schema: Schema) -> dict[str, str]:
    """The names of final values, by those of what is seen."""
    return {column.key: column.final_key for column in schema if column.final_key is not None}


def gather(
    before: Mapping[str, Array],
    action: Mapping[str, Any],
    outcomes: Sequence[SingleStep],
    begun: Sequence[dict[str, Array] | None],
    finals: Mapping[str, str],
) -> Step:
    """One step of all from the steps of each.

    Args:
        before: What was seen before the step.
        begun: What is seen in the next episode where one has begun.
        finals: The names of final values.
    """
    terminated = np.array([outcome.terminated for outcome in outcomes])
    truncated = np.array([outcome.truncated and not outcome.terminated for outcome in outcomes])
    after = stack([outcome.obs for outcome in outcomes])
    row: dict[str, Any] = {**before, **action}
    row |= stack([outcome.reward for outcome in outcomes])
    row["terminated"], row["truncated"] = terminated, truncated
    seen = after
    ended = np.flatnonzero(terminated | truncated).tolist()
    if ended:
        row |= {finals[key]: value for key, value in after.items()}
        seen = {key: value.copy() for key, value in after.items()}
        for index in ended:
            fresh = begun[index]
            if fresh is not None:
                for key, value in fresh.items():
                    seen[key][index] = value
    return Step(seen, row, terminated, truncated, _infos([outcome.info for outcome in outcomes]))


def _infos(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers that environments report, ``[E]``; NaN where one does not."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for info in infos for key in info):
        values = [info.get(key) for info in infos]
        if all(value is None or is_number(value) for value in values):
            missing = any(value is None for value in values)
            found[key] = np.array([np.nan if value is None else value for value in values], float if missing else None)
    return found
