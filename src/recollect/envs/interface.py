"""What every environment here looks like: many vectorised environments, many agents in each.

    env = recollect.envs.make("simple_tag", num_envs=64)
    memory = recollect.Memory(env.schema, capacity=64_000, lanes=env.num_envs)
    obs = env.reset(seed=0)             # {"adversary/obs": [64, 3, 16], "agent/obs": [64, 1, 14]}
    for _ in range(1000):
        action = policy(obs)            # {"adversary/action": [64, 3], "agent/action": [64, 1]}
        step = env.step(action)
        memory.append(**step.row)       # what was seen, done, and came of it; the true final observation at an end
        obs = step.obs                  # where an episode ended, the next one has begun

Names are the memory's: ``obs``, ``action``, ``reward``, ``agent_mask``, ``avail_actions`` and ``state``, with the group
before a slash where agents differ. Every array has the environments first, then the agents of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, final, runtime_checkable

import numpy as np

from recollect.errors import MissingExtra, OptionError
from recollect.schema import Field, Group, Schema
from recollect.schema.spaces import fields_of, stacked

try:
    from gymnasium import Space, spaces
except ImportError:
    raise MissingExtra("gymnasium", "envs") from None

__all__ = [
    "AgentGroup",
    "Array",
    "Env",
    "Goals",
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

Array: TypeAlias = np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True)
class AgentGroup:
    """Agents of one kind, stacked along one axis.

    Args:
        name: Empty if the environment has one group only; then its fields have no prefix.
        obs_space: What one agent sees.
        action_space: What one agent does.
        avail: Whether ``avail_actions`` says which actions may be taken.
        mask: Whether agents come and go: ``agent_mask`` says who is there.
        located: Whether ``position`` says where agents are, as two numbers.
        alone: Whether it is one agent, whose arrays have no axis of agents.
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
    """What one step of all environments brought."""

    obs: dict[str, Array]
    """What agents see now, and choose their next actions from."""
    row: dict[str, Any]
    """The step as ``Memory.append`` takes it: seen before, done, reward, ends, final observations."""
    terminated: Array
    """Where the episode came to its end, ``[E]``."""
    truncated: Array
    """Where the episode was cut off, ``[E]``."""
    info: dict[str, Any]
    """What the environment reports besides, by name; at an end about the episode that ended."""

    @property
    def ended(self) -> Array:
        """Where an episode is over, ``[E]``."""
        return np.asarray(self.terminated | self.truncated)


class Env(Protocol):
    """Vectorised environments."""

    name: str
    num_envs: int
    groups: tuple[AgentGroup, ...]
    state_space: Space[Any] | None
    """What describes the whole environment, if anything does: the field ``state``."""
    shared_reward: bool
    """True: one reward ``[E]`` for all. False: each agent's own, ``[E, A]``."""
    max_episode_steps: int | None
    """Steps after which an episode is cut off, if that is known."""
    schema: Schema
    """The memory's schema of a step."""

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Begin new episodes everywhere and return what is seen.

        Args:
            seed: One for all (each environment gets its own from it, whatever the number beside it), or a list with
                one an environment. None goes on with the streams there are, or begins fresh ones.

        In the middle of episodes tell the memory too: ``memory.cut()``.
        """

    def step(self, action: Mapping[str, Any] | Any) -> Step:
        """Take a step everywhere. With one group the actions alone may be given."""

    def render(self, index: int = 0) -> Array:
        """A picture of one environment, ``[height, width, 3]`` bytes."""

    def close(self) -> None:
        """Let go of windows, processes and files."""


@runtime_checkable
class Snapshots(Protocol):
    """Environments that can be gone on with from what they were: a resumed run is then the same bit for bit."""

    def snapshot(self) -> dict[str, Array]:
        """Everything that what follows depends on, as arrays."""

    def restore(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """Go on from a snapshot; return what is seen."""


@runtime_checkable
class ShowsEnds(Protocol):
    """Environments that can be drawn as an episode ended, before the next one begins."""

    at_end: Callable[[int], None] | None
    """Called with the number of an environment whose episode is over, while ``render`` still shows it."""


@runtime_checkable
class Goals(Protocol):
    """Environments of goals, as Gymnasium-Robotics has them: what a goal is worth can be asked of any two."""

    compute_reward: Callable[[Any, Any, Any], Any]
    """Rewards ``[B]`` of goals achieved ``[B, ...]``, goals desired, and infos."""
    compute_terminated: Callable[[Any, Any, Any], Any]
    """Whether achieving these ends an episode, ``[B]`` or one for all."""


@runtime_checkable
class Reports(Protocol):
    """Environments that say more about an episode than its return."""

    report_names: tuple[str, ...]
    """What of ``Step.info`` is the result of an episode, such as ``battle_won``: evaluations and curves show it."""


def schema_of(groups: Sequence[AgentGroup], state_space: Space[Any] | None, *, shared_reward: bool) -> Schema:
    """The schema of what environments with these groups give."""
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


def as_actions(groups: Sequence[AgentGroup], action: Mapping[str, Any] | Any) -> Mapping[str, Any]:
    """Actions by field name, where a lone group's may come without."""
    if isinstance(action, Mapping):
        missing = [group.key("action") for group in groups if not _has(action, group.key("action"))]
        if missing:
            wanted = ", ".join(group.key("action") for group in groups)
            raise OptionError("action", f"have {wanted}", ", ".join(map(str, action)) or "nothing")
        return action
    if len(groups) > 1:
        wanted = ", ".join(group.key("action") for group in groups)
        raise OptionError("action", f"be a mapping with {wanted}", type(action).__name__)
    return {groups[0].key("action"): action}


def plain_actions(groups: Sequence[AgentGroup], action: Mapping[str, Any] | Any) -> Mapping[str, Any]:
    """Actions by field name, where every group's are one array and nothing else is given."""
    given = as_actions(groups, action)
    wanted = [group.key("action") for group in groups]
    if len(given) != len(wanted) or any(key not in given for key in wanted):
        raise OptionError("action", f"have {', '.join(wanted)}", ", ".join(map(str, given)))
    return given


def choices(name: str, action: Any, shape: tuple[int, ...], count: int) -> Array:
    """A choice for each agent as an array of its own, if all are from 0 to below ``count``."""
    chosen = numbers(name, action)
    if chosen.shape != shape:
        raise OptionError(name, f"have shape {list(shape)}", list(chosen.shape))
    if chosen.dtype.kind not in "iu":
        raise OptionError(name, "be whole numbers", chosen.dtype)
    places = chosen.astype(np.int64)
    if places.view(np.uint64).max() >= count:  # below zero is far too large as unsigned
        raise OptionError(name, f"be from 0 to {count - 1}", chosen[(chosen < 0) | (chosen >= count)][0])
    return places


def numbers(name: str, value: Any) -> Array:
    """The value as an array, if it is one."""
    try:
        return np.asarray(value)
    except ValueError:
        raise OptionError(name, "be an array", "lists of different lengths") from None


def _has(action: Mapping[str, Any], key: str) -> bool:
    return key in action or any(name.startswith(f"{key}/") for name in action)


def notify(at_end: Callable[[int], None] | None, ended: Array) -> None:
    """Tell whoever asked which environments' episodes are over, ``[E]``."""
    if at_end is not None:
        for index in np.flatnonzero(ended):
            at_end(int(index))


def finals(row: Mapping[str, Any]) -> dict[str, Array]:
    """What was seen after the last step, by the names of what is seen; from a row in which an episode ended."""
    return {key.replace("final_", "", 1): value for key, value in row.items() if "final_" in key}
