"""Vectorisation of single environments in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.adapters.single_env import SingleEnv, SingleStep, is_number, leaves, stack
from relive.envs.checks import guarded, own_traceback
from relive.envs.dice import seeds_for
from relive.envs.interface import AgentGroup, Goals, HasFrameRate, Step, as_actions, numbers, schema_of
from relive.errors import EnvError, OptionError, ReliveError
from relive.schema import Schema
from relive.types import Actions, Array, ArrayLike, Arrays

__all__ = [
    "ActionRule",
    "SyncEnvs",
    "action_rules",
    "check_actions",
    "check_alike",
    "check_started",
    "final_names",
    "gather",
]


@final
class SyncEnvs:
    """Vectorised environments, stepped sequentially in this process."""

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
        self._rules = action_rules(first.groups, self.num_envs)
        self.report_names: tuple[str, ...] = getattr(first, "report_names", ())
        if isinstance(first, HasFrameRate):
            self.render_fps = first.render_fps
        if isinstance(first, Goals):
            self.compute_reward, self.compute_terminated = first.compute_reward, first.compute_terminated
        self.at_end: Callable[[int], None] | None = None
        """Called with the index of an environment whose episode ended, while ``render`` still shows its last state."""
        self._seen: dict[str, Array] = {}

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Reset all environments and return their observations."""
        each = [None] * self.num_envs if seed is None else seeds_for(seed, self.num_envs)
        self._seen = {}  # if one fails, all need a reset that succeeds
        self._seen = stack([self._reset(index, start) for index, start in enumerate(each)])
        return dict(self._seen)

    def step(self, action: Actions) -> Step:
        """Step all environments; those whose episode ends are reset."""
        check_started(self._seen)
        given = check_actions(self._rules, as_actions(self.groups, action))
        before, self._seen = self._seen, {}
        outcomes: list[SingleStep] = []
        try:
            for index, one in enumerate(self._ones):
                outcomes.append(one.step({key: value[index] for key, value in given.items()}))
        except ReliveError:
            raise
        except Exception as error:
            who = self._called(len(outcomes))
            raise EnvError(f"step of {who}", "not raise", own_traceback()) from error
        begun: dict[int, dict[str, Array]] = {}
        for index, outcome in enumerate(outcomes):
            if outcome.terminated or outcome.truncated:
                if self.at_end is not None:
                    self.at_end(index)
                begun[index] = self._reset(index, None)
        step = gather(before, given, outcomes, begun, self._finals)
        self._seen = dict(step.obs)
        return step

    def _reset(self, index: int, seed: int | None) -> dict[str, Array]:
        return guarded(self._called(index), "reset", lambda: self._ones[index].reset(seed))

    def _called(self, index: int) -> str:
        return f"environment {index} ({self.name})"

    def render(self, index: int = 0) -> Array:
        """An image of one environment, RGB bytes."""
        return self._ones[index].render()

    def close(self) -> None:
        """Close all."""
        for one in self._ones:
            one.close()


def check_alike(ones: Sequence[SingleEnv]) -> None:
    """Refuse environments with different spaces."""
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


class ActionRule(NamedTuple):
    """The rule of one action field."""

    key: str
    shape: tuple[int, ...]
    """``[E, A, ...]``."""
    kinds: str
    """Of their dtype."""
    low: Any
    """None: unbounded. Box bounds are not checked, since environments may clip."""
    high: Any

    def check(self, value: Array) -> None:
        """Refuse invalid actions."""
        if value.shape != self.shape:
            raise OptionError(self.key, f"have shape {list(self.shape)}", list(value.shape))
        if value.dtype.kind not in self.kinds:
            raise OptionError(self.key, "be whole numbers", value.dtype)
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise OptionError(self.key, "be finite", value[~np.isfinite(value)][0])
        if self.low is not None:
            wrong = (value < self.low) | (value > self.high)
            if wrong.any():
                raise OptionError(self.key, f"be from {np.min(self.low)} to {np.max(self.high)}", value[wrong][0])


def action_rules(groups: Sequence[AgentGroup], num_envs: int) -> tuple[ActionRule, ...]:
    """The rules of all action fields, ``[E, A, ...]`` each."""
    return tuple(
        ActionRule(
            key,
            (num_envs, len(group), *(space.shape or ())),
            "biuf" if isinstance(space, spaces.Box) else "biu",
            *_bounds(space),
        )
        for group in groups
        for key, space in leaves(group.action_space, group.key("action")).items()
    )


def check_actions(rules: Sequence[ActionRule], action: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Validated actions of all environments, as new arrays."""
    found: dict[str, Array] = {}
    for rule in rules:
        if rule.key not in action:
            raise OptionError("action", f"have {rule.key}", ", ".join(action))
        found[rule.key] = value = numbers(rule.key, action[rule.key]).copy()
        rule.check(value)
    if len(action) > len(found):
        extra = sorted(set(action) - set(found))
        raise OptionError("action", f"have {', '.join(found)}", f"also {', '.join(extra)}")
    return found


def _bounds(space: Space[Any]) -> tuple[Any, Any]:
    """Bounds of a discrete space."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return (0, 1) if isinstance(space, spaces.MultiBinary) else (None, None)


def final_names(schema: Schema) -> dict[str, str]:
    """The names of final observations, by those of observations."""
    return {column.key: column.final_key for column in schema if column.final_key is not None}


def gather(
    before: Mapping[str, Array],
    action: Arrays,
    outcomes: Sequence[SingleStep],
    begun: Mapping[int, dict[str, Array]],
    finals: Mapping[str, str],
) -> Step:
    """Combine the steps of single environments.

    Args:
        before: Observations before the step.
        begun: First observations of new episodes, by environment.
        finals: The names of final observations.
    """
    terminated = np.array([outcome.terminated for outcome in outcomes])
    truncated = np.array([outcome.truncated and not outcome.terminated for outcome in outcomes])
    after = stack([outcome.obs for outcome in outcomes])
    row: dict[str, Array] = {**before, **action, **stack([outcome.reward for outcome in outcomes])}
    row["terminated"], row["truncated"] = terminated, truncated
    seen = after
    if begun:
        row |= {finals[key]: value for key, value in after.items()}
        seen = {key: value.copy() for key, value in after.items()}
        for index, fresh in begun.items():
            for key, value in fresh.items():
                seen[key][index] = value
    return Step(seen, row, terminated, truncated, _infos([outcome.info for outcome in outcomes]))


def _infos(infos: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Numeric infos ``[E]``; NaN where an environment has none."""
    found: dict[str, Array] = {}
    for key in dict.fromkeys(key for info in infos for key in info):
        values = [info.get(key) for info in infos]
        if all(value is None or is_number(value) for value in values):
            missing = any(value is None for value in values)
            found[key] = np.array([np.nan if value is None else value for value in values], float if missing else None)
    return found
