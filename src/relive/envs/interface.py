"""The interface of vectorised multi-agent environments.

    env = relive.envs.make("simple_tag", num_envs=64)
    memory = relive.Memory(env.schema, capacity=64_000, lanes=env.num_envs)
    obs = env.reset(seed=0)             # {"adversary/obs": [64, 3, 16], "agent/obs": [64, 1, 14]}
    for _ in range(1000):
        action = policy(obs)            # {"adversary/action": [64, 3], "agent/action": [64, 1]}
        step = env.step(action)
        memory.append(**step.row)       # obs, action, reward, flags; the true final observation at an episode's end
        obs = step.obs                  # where an episode ended, the next one's first observation

Names are the memory's: ``obs``, ``action``, ``reward``, ``agent_mask``, ``avail_actions`` and ``state``, with the group
before a slash where agents differ. Every array has the environments first, then the agents of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, final, runtime_checkable

import numpy as np

from relive.errors import MissingExtra, OptionError
from relive.schema import Field, Group, Schema
from relive.schema.spaces import fields_of, stacked
from relive.types import Actions, Array, ArrayLike, Arrays

try:
    from gymnasium import Space, spaces
except ImportError:
    raise MissingExtra("gymnasium", "envs") from None

__all__ = [
    "AgentGroup",
    "Env",
    "Goals",
    "HasFrameRate",
    "HasLegend",
    "LegendEntry",
    "Reports",
    "ShowsEnds",
    "Snapshots",
    "Step",
    "as_actions",
    "choices",
    "finals",
    "notify",
    "numbers",
    "plain_actions",
    "schema_of",
]


@final
@dataclass(frozen=True, slots=True)
class AgentGroup:
    """Agents of one kind, stacked along one axis.

    Args:
        name: Empty if the environment has one group only; then its fields have no prefix.
        obs_space: The observation space of one agent.
        action_space: The action space of one agent.
        avail: Whether there is an action mask, ``avail_actions``.
        mask: Whether agents can die or leave: ``agent_mask`` is True for agents alive.
        located: Whether ``position`` has agents' coordinates, as two numbers.
        alone: Whether it is a single agent, whose arrays have no agent axis.
    """

    name: str
    agents: tuple[str, ...]
    obs_space: Space[Any]
    action_space: Space[Any]
    avail: bool = False
    mask: bool = False
    located: bool = False
    alone: bool = False

    def __len__(self) -> int:
        return len(self.agents)

    def key(self, field: str) -> str:
        """The name of this group's field in steps, rows and batches.

        >>> box = spaces.Box(0, 1, (2,))
        >>> AgentGroup("prey", ("prey_0",), box, box).key("obs")
        'prey/obs'
        """
        return f"{self.name}/{field}" if self.name else field


class Step(NamedTuple):
    """The result of one step of all environments."""

    obs: dict[str, Array]
    """Current observations, from which the next actions are chosen."""
    row: dict[str, Array]
    """The step as ``Memory.append`` takes it: obs, action, reward, flags, final observations."""
    terminated: Array
    """Where the episode terminated, ``[E]``."""
    truncated: Array
    """Where the episode was truncated, ``[E]``."""
    info: dict[str, Array]
    """Further metrics by name; where an episode ended, those of that episode."""

    @property
    def ended(self) -> Array:
        """Where an episode ended, ``[E]``."""
        return np.asarray(self.terminated | self.truncated)


class Env(Protocol):
    """Vectorised environments."""

    name: str
    num_envs: int
    groups: tuple[AgentGroup, ...]
    state_space: Space[Any] | None
    """The space of the global ``state``, if there is one."""
    shared_reward: bool
    """True: one reward ``[E]`` for all. False: each agent's own, ``[E, A]``."""
    max_episode_steps: int | None
    """Steps after which an episode is truncated, if known."""
    schema: Schema
    """The memory's schema of a step."""

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Reset all environments and return their observations.

        Args:
            seed: One for all (each environment derives its own, whatever ``num_envs``), or a list with one for each.
                None continues the random streams, or starts new ones.

        In the middle of episodes call ``memory.cut()`` too.
        """

    def step(self, action: Actions) -> Step:
        """Step all environments. With one group, ``action`` may be its array."""

    def render(self, index: int = 0) -> Array:
        """An image of one environment, ``[height, width, 3]`` bytes."""

    def close(self) -> None:
        """Release windows, processes and files."""


@runtime_checkable
class Snapshots(Protocol):
    """Environments whose state can be saved: a resumed run is then identical bit for bit."""

    def snapshot(self) -> dict[str, Array]:
        """The full state as arrays."""

    def restore(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """Restore a snapshot and return the observations."""


@runtime_checkable
class ShowsEnds(Protocol):
    """Environments whose final state can be rendered before the reset."""

    at_end: Callable[[int], None] | None
    """Called with the index of an environment whose episode ended, while ``render`` still shows its last state."""


LegendEntry: TypeAlias = tuple[str, tuple[tuple[int, int, int], ...]]
"""A label, and the colours of what it stands for."""


@runtime_checkable
class HasFrameRate(Protocol):
    """Environments that say how many of their steps are a second."""

    render_fps: float


@runtime_checkable
class HasLegend(Protocol):
    """Environments that name what their images show."""

    def legend(self, index: int = 0) -> list[LegendEntry]:
        """Who is who in the image of one environment."""
        ...


@runtime_checkable
class Goals(Protocol):
    """Goal environments, as in Gymnasium-Robotics: rewards can be recomputed for any goals."""

    compute_reward: Callable[[ArrayLike, ArrayLike, Any], ArrayLike]
    """Rewards ``[B]`` of achieved goals ``[B, ...]``, desired goals, and infos."""
    compute_terminated: Callable[[ArrayLike, ArrayLike, Any], ArrayLike]
    """Whether these goals terminate the episode, ``[B]`` or one for all."""


@runtime_checkable
class Reports(Protocol):
    """Environments that report more about an episode than its return."""

    report_names: tuple[str, ...]
    """Entries of ``Step.info`` that are an episode's result, such as ``battle_won``, for evaluations and curves."""


def schema_of(groups: Sequence[AgentGroup], state_space: Space[Any] | None, *, shared_reward: bool) -> Schema:
    """The schema of environments with these groups."""
    fields: dict[str, Any] = {}
    for group in groups:
        count = len(group)
        inner: dict[str, Any] = {
            "obs": fields_of("obs", group.obs_space, float64=False),
            "action": fields_of("action", group.action_space, float64=False),
        }
        if group.avail:
            inner["avail_actions"] = Field(_choices(group), "bool")
        inner = inner if group.alone else {name: stacked(field, count) for name, field in inner.items()}
        if group.mask:
            inner["agent_mask"] = Field((count,), "bool")
        if group.located:
            inner["position"] = Field((count, 2))
        if not shared_reward:
            inner["reward"] = Field((count,))
        fields |= {group.name: Group(inner)} if group.name else inner
    if state_space is not None:
        fields["state"] = fields_of("state", state_space, float64=False)
    if shared_reward:
        fields["reward"] = Field()
    schema = Schema(**fields)
    schema.agents = {group.name: group.agents for group in groups}
    return schema


def _choices(group: AgentGroup) -> tuple[int, ...]:
    if not isinstance(group.action_space, spaces.Discrete):
        raise OptionError("action space", "be Discrete to have avail_actions", group.action_space)
    return (int(group.action_space.n),)


def as_actions(groups: Sequence[AgentGroup], action: Actions) -> Mapping[str, ArrayLike]:
    """Actions by field name; a single group's may be given without one."""
    if isinstance(action, Mapping):
        missing = [group.key("action") for group in groups if not _has(action, group.key("action"))]
        if missing:
            expected = ", ".join(group.key("action") for group in groups)
            raise OptionError("action", f"have {expected}", ", ".join(map(str, action)) or "nothing")
        return action
    if len(groups) > 1:
        expected = ", ".join(group.key("action") for group in groups)
        raise OptionError("action", f"be a mapping with {expected}", type(action).__name__)
    return {groups[0].key("action"): action}


def plain_actions(groups: Sequence[AgentGroup], action: Actions) -> Mapping[str, ArrayLike]:
    """Actions by field name, for groups whose action space is not nested."""
    given = as_actions(groups, action)
    expected = [group.key("action") for group in groups]
    if len(given) != len(expected) or any(key not in given for key in expected):
        raise OptionError("action", f"have {', '.join(expected)}", ", ".join(map(str, given)))
    return given


def choices(name: str, action: object, shape: tuple[int, ...], count: int) -> Array:
    """Discrete actions as a new array, if all are from 0 to below ``count``."""
    chosen = numbers(name, action)
    if chosen.shape != shape:
        raise OptionError(name, f"have shape {list(shape)}", list(chosen.shape))
    if chosen.dtype.kind not in "iu":
        raise OptionError(name, "be whole numbers", chosen.dtype)
    places = chosen.astype(np.int64)
    if places.view(np.uint64).max() >= count:  # below zero is far too large as unsigned
        raise OptionError(name, f"be from 0 to {count - 1}", chosen[(chosen < 0) | (chosen >= count)][0])
    return places


def numbers(name: str, value: object) -> Array:
    """The value as a NumPy array."""
    try:
        return np.asarray(value)
    except ValueError:
        raise OptionError(name, "be an array", "lists of different lengths") from None


def _has(action: Mapping[str, Any], key: str) -> bool:
    return key in action or any(name.startswith(f"{key}/") for name in action)


def notify(at_end: Callable[[int], None] | None, ended: Array) -> None:
    """Call ``at_end`` for every environment whose episode ended, ``[E]``."""
    if at_end is not None:
        for index in np.flatnonzero(ended):
            at_end(int(index))


def finals(row: Arrays) -> dict[str, Array]:
    """The final observations of a row in which an episode ended, by the names of observations."""
    return {key.replace("final_", "", 1): value for key, value in row.items() if "final_" in key}
