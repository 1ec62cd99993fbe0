"""Fields from Gymnasium spaces, by duck typing: this module does not import Gymnasium."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relive.errors import SchemaError
from relive.schema.fields import RESERVED, ROLES, Field, Group

__all__ = ["agent_fields", "by_kind", "fields_of", "smallest", "stacked"]


def fields_of(name: str, space: Any, *, float64: bool) -> Any:
    """The field of a space, nested as the space is; fields pass through."""
    if isinstance(space, Field) or space is None:
        return space
    kind = _kind(space)
    if kind == "Dict":
        return {key: fields_of(f"{name}/{key}", inner, float64=float64) for key, inner in space.spaces.items()}
    if kind == "Tuple":
        return tuple(fields_of(f"{name}/{i}", inner, float64=float64) for i, inner in enumerate(space.spaces))
    if kind == "Discrete":
        start = int(getattr(space, "start", 0))
        return Field((), smallest(start, start + int(space.n) - 1))
    if kind == "MultiDiscrete":
        first = np.asarray(getattr(space, "start", 0))
        return Field(space.shape, smallest(int(np.min(first)), int(np.max(first + space.nvec - 1))))
    if kind == "MultiBinary":
        return Field(space.shape, "bool")
    if kind == "Box":
        return Field(space.shape, _box_dtype(space, float64=float64))
    raise SchemaError(
        name,
        "be a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple space, or a Field",
        repr(space),
        "State it as a Field.",
    )


def agent_fields(
    obs: Mapping[str, Any],
    action: Mapping[str, Any],
    groups: Mapping[str, Sequence[str]] | None,
    *,
    shared_reward: bool,
    float64: bool,
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Stacked fields of every group, and the agents of each."""
    for name, value in (("obs", obs), ("action", action), ("groups", {} if groups is None else groups)):
        if not isinstance(value, Mapping):
            raise SchemaError(name, "be a mapping by agents' or groups' names", type(value).__name__)
    if not obs or set(obs) != set(action):
        raise SchemaError("obs and action", "name the same agents", f"{sorted(obs)} and {sorted(action)}")
    members = by_kind(obs, action) if groups is None else _as_named(obs, action, groups)
    fields: dict[str, Any] = {}
    for group, names in members.items():
        count = len(names)
        inner: dict[str, Any] = {
            "obs": stacked(fields_of("obs", obs[names[0]], float64=float64), count),
            "action": stacked(fields_of("action", action[names[0]], float64=float64), count),
        }
        if not shared_reward:
            inner["reward"] = Field((count,))
        if group:
            fields[group] = Group(inner)
        else:
            fields |= inner
    return fields, members


def _kind(space: Any) -> str:
    names = {cls.__name__ for cls in type(space).__mro__}
    for kind in ("Dict", "Tuple", "Discrete", "MultiDiscrete", "MultiBinary", "Box"):
        if kind in names and hasattr(space, "contains"):
            return kind
    return ""


def smallest(low: int, high: int) -> np.dtype[Any]:
    """The smallest dtype that holds whole numbers within bounds."""
    for name in ("uint8", "uint16", "uint32", "uint64") if low >= 0 else ("int8", "int16", "int32", "int64"):
        limits = np.iinfo(name)
        if limits.min <= low and high <= limits.max:
            return np.dtype(name)
    raise SchemaError("space", "have bounds that 64 bits hold", f"{low} to {high}")


def _box_dtype(space: Any, *, float64: bool) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(space.dtype)
    if dtype == np.float64 and not float64:
        return np.dtype("float32")
    if dtype.kind in "iu":
        return smallest(int(np.min(space.low)), int(np.max(space.high)))
    return dtype


def by_kind(obs: Mapping[str, Any], action: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Agents with equal spaces together, by the name of the group they form; "" if all are alike."""
    kinds: list[list[str]] = []
    for agent in obs:
        for kind in kinds:
            if obs[kind[0]] == obs[agent] and action[kind[0]] == action[agent]:
                kind.append(agent)
                break
        else:
            kinds.append([agent])
    if len(kinds) == 1:
        return {"": tuple(kinds[0])}
    named: dict[str, tuple[str, ...]] = {}
    for kind in kinds:
        stem = re.sub(r"\W", "_", kind[0].rstrip("0123456789").rstrip("_")).lstrip("_") or "agents"
        if (
            stem in RESERVED
            or stem in ROLES
            or not stem.isidentifier()
            or hasattr(dict, stem)
            or stem.startswith("final_")
        ):
            stem = f"agents_{stem}"
        name, more = stem, 1
        while name in named:
            more += 1
            name = f"{stem}_{more}"
        named[name] = tuple(kind)
    return named


def _as_named(
    obs: Mapping[str, Any], action: Mapping[str, Any], groups: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    placed = [agent for names in groups.values() for agent in names]
    if sorted(placed) != sorted(obs) or not all(groups.values()):
        raise SchemaError("groups", f"hold each of {', '.join(sorted(obs))} once", ", ".join(sorted(placed)) or "none")
    for group, names in groups.items():
        if any(obs[a] != obs[names[0]] or action[a] != action[names[0]] for a in names):
            raise SchemaError(f"group {group}", "hold agents with equal spaces", ", ".join(names), "Split it.")
    return {group: tuple(names) for group, names in groups.items()}


def stacked(value: Any, count: int) -> Any:
    """The field, or nested fields, of ``count`` agents along a first axis."""
    if isinstance(value, Field):
        return Field((count, *value.shape), value.dtype, value.role)
    if isinstance(value, Mapping):
        return {key: stacked(inner, count) for key, inner in value.items()}
    return tuple(stacked(inner, count) for inner in value)
