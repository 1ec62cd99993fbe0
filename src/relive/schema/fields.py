"""Fields, groups and schemas of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import numpy as np

from relive.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RESERVED", "ROLES", "Column", "Field", "Group", "Role", "Schema", "join_columns", "make_column"]

Role: TypeAlias = Literal["observed", "action", "reward", "plain"]

_MOST_BYTES = 1 << 40
_DEEPEST = 32
ROLES: dict[str, Role] = {
    **dict.fromkeys(("obs", "observation", "observations", "pixels", "state"), "observed"),
    **dict.fromkeys(("avail_actions", "agent_mask", "position"), "observed"),
    **dict.fromkeys(("action", "actions"), "action"),
    **dict.fromkeys(("reward", "rewards"), "reward"),
}
"""Roles of fields that state none, by name."""
_SEEN = "Name it obs if it is observed at every step, or state its role: Field(..., role='observed') or role='plain'."
_OUTCOME = "Every step has terminated and truncated; to store a field beside them, state its role: role='plain'."
_UNCLEAR = {
    **dict.fromkeys(("image", "images", "frame", "frames", "observed", "vector", "features"), _SEEN),
    **dict.fromkeys(("act", "acts"), "Name it action, or state its role: Field(..., role='action')."),
    **dict.fromkeys(("rew", "rews"), "Name it reward, or state its role: Field(..., role='reward')."),
    **dict.fromkeys(("done", "dones", "terminal", "terminals", "timeout", "timeouts"), _OUTCOME),
    **dict.fromkeys(("obs_next", "new_obs", "obs2", "obs_tp1"), "Name it next_obs, or state its role: role='plain'."),
}
"""Names that suggest a role without being one of ours, and what to do about it."""
RESERVED = frozenset(
    {"terminated", "truncated", "discount", "weights", "serials", "lanes", "mask", "lengths", "starts"}
    | {"size", "action_keys"}
)
"""Names that a step or batch uses itself."""


@final
@dataclass(frozen=True, slots=True)
class Field:
    """Shape and dtype of one thing remembered at every step.

    Args:
        role: ``"observed"`` fields have a value before each step and one after the last (``final_...`` in a step,
            ``next_...`` in a batch); ``"reward"`` fields are summed by n-step windows; integers of ``"action"`` fields
            become int64 in ``to_torch``; ``"plain"`` fields are none of these. None: by name. ``obs``,
            ``observation(s)``, ``pixels``, ``state``, ``avail_actions``, ``agent_mask`` and ``position`` are observed,
            ``action(s)`` is an action, ``reward(s)`` a reward, all others are plain.

    >>> Field((3,), "uint8")
    Field(shape=(3,), dtype=dtype('uint8'), role=None)
    """

    shape: tuple[int, ...] = ()
    dtype: Any = "float32"
    role: Role | None = None

    def __post_init__(self) -> None:
        shape = self.shape if isinstance(self.shape, (tuple, list)) else (self.shape,)
        if any(not isinstance(n, (int, np.integer)) or n < 1 for n in shape) or len(shape) > 24:
            raise SchemaError("shape", "have at most 24 sizes of at least 1", self.shape, "Leave empty axes out.")
        try:
            if self.dtype is None:
                raise TypeError
            dtype = np.dtype(self.dtype)
        except TypeError:
            raise SchemaError("dtype", "be a NumPy dtype", repr(self.dtype)) from None
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise SchemaError("dtype", "be boolean, whole or float of at most 8 bytes", dtype, "Encode it as numbers.")
        if math.prod(int(n) for n in shape) * dtype.itemsize > _MOST_BYTES:
            raise SchemaError("shape", f"take at most {_MOST_BYTES} bytes", self.shape, "Store less in a row.")
        if self.role is not None and (
            not isinstance(self.role, str) or self.role not in ("observed", "action", "reward", "plain")
        ):
            raise SchemaError("role", "be 'observed', 'action', 'reward', 'plain' or None", repr(self.role))
        object.__setattr__(self, "shape", tuple(int(n) for n in shape))
        object.__setattr__(self, "dtype", dtype.newbyteorder("="))


@final
class Group(dict[str, Any]):
    """Fields of one group of agents: ``Schema(hunter=Group(obs=Field((3, 8)), ...), prey=Group(...))``."""


@final
@dataclass(frozen=True, slots=True)
class Column:
    """One array of the memory: a field, or a leaf of a nested one."""

    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    role: Role | Literal["next"]
    final_key: str | None = None
    next_key: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of one value."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@final
class Schema:
    """The fields of a row.

    A value is a ``Field``, a mapping or tuple of them (nested observations), or a ``Group``. A float32 ``reward`` is
    added unless a reward is given or ``reward`` is None. ``terminated`` and ``truncated`` always exist.

    Without an observed field there is no next observation either. Such a schema is refused, unless all of its fields
    state their roles.

    >>> Schema(obs=Field((4,)), action=Field((), "uint8"))
    Schema(obs: float32[4], action: uint8, reward: float32)
    """

    def __init__(self, /, **fields: Any) -> None:
        columns: list[Column] = []
        grouped = any(isinstance(value, Group) for value in fields.values())
        guessed: list[str] = []  # fields that state no role
        for name, value in fields.items():
            if value is None and name == "reward":
                continue
            if isinstance(value, Group):
                _check_name(name)
                for inner, field in value.items():
                    columns += _columns(inner, field, (name,), guessed)
            else:
                columns += _columns(name, value, (), guessed)
        if not columns:
            raise SchemaError("schema", "have at least one field", "none", "For example: Schema(obs=Field((4,))).")
        if guessed and not any(column.role in ("observed", "next") for column in columns):
            raise SchemaError(
                "schema",
                "observe something, or state the role of every field",
                f"no role for {', '.join(guessed)}",
                "Name what the agent sees obs, or give it Field(..., role='observed').",
            )
        if "reward" not in fields and not grouped and not any(column.role == "reward" for column in columns):
            columns += _columns("reward", Field(), (), guessed)
        self._settle(columns, {})

    def _settle(self, columns: list[Column], agents: dict[str, tuple[str, ...]]) -> None:
        if not columns:
            raise SchemaError("schema", "have at least one field", "none", "For example: Schema(obs=Field((4,))).")
        self.columns: tuple[Column, ...] = tuple(columns)
        self.agents: dict[str, tuple[str, ...]] = agents
        self.loose: bool = _check_next(self.columns)
        self.branches: frozenset[str] = frozenset(_branches(self.columns))
        self.action_keys: frozenset[str] = frozenset(column.key for column in columns if column.role == "action")

    @classmethod
    def from_spaces(cls, *, float64: bool = False, **spaces: Any) -> Schema:
        """Schema of one environment's Gymnasium spaces; ``Field`` values pass through.

        Every space is stored in the smallest dtype that holds it exactly; float64 becomes float32 unless ``float64``.
        """
        from relive.schema.spaces import fields_of

        return cls(**{name: fields_of(name, space, float64=float64) for name, space in spaces.items()})

    @classmethod
    def from_agents(
        cls,
        *,
        obs: Mapping[str, Any],
        action: Mapping[str, Any],
        groups: Mapping[str, Sequence[str]] | None = None,
        shared_reward: bool = False,
        float64: bool = False,
        **shared: Any,
    ) -> Schema:
        """Schema of many agents' Gymnasium spaces, by agent name.

        Agents with equal spaces are stacked along a first axis ``[A, ...]``. If all are alike there are no groups;
        otherwise each kind is a group, named after its agents unless ``groups`` names them. ``agents`` on the result
        says which agents a group holds, in the order of the axis; ``""`` is the group of a schema without groups.

        Args:
            shared: Spaces or fields of the whole environment, such as ``state``.
        """
        from relive.schema.spaces import agent_fields, fields_of

        fields, agents = agent_fields(obs, action, groups, shared_reward=shared_reward, float64=float64)
        for name in shared:
            if name in fields:
                raise SchemaError("group", "have a name that no shared field has", repr(name))
        fields |= {name: fields_of(name, space, float64=float64) for name, space in shared.items()}
        if shared_reward:
            fields.setdefault("reward", Field())
        schema = cls(**fields)
        schema.agents = agents
        return schema

    def with_fields(self, /, **fields: Field) -> Schema:
        """This schema with more fields; ``group/name`` is a field of a group.

        >>> Schema(obs=Field((4,))).with_fields(height=Field())
        Schema(obs: float32[4], reward: float32, height: float32)
        """
        columns = list(self.columns)
        for key, field in fields.items():
            if not isinstance(field, Field):
                raise SchemaError(key, "be a Field", repr(field))
            *above, name = key.split("/")
            columns.append(make_column(name, field, tuple(above), (), carried=name.startswith("next_")))
        return join_columns(columns, self.agents)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.columns == other.columns and self.agents == other.agents

    def __hash__(self) -> int:
        return hash(self.columns)

    def __getitem__(self, key: str) -> Column:
        for column in self.columns:
            if isinstance(key, str) and column.key == key:
                return column
        raise SchemaError("field", f"be one of {', '.join(c.key for c in self.columns)}", repr(key))

    def __repr__(self) -> str:
        return f"Schema({', '.join(_describe(column) for column in self.columns)})"

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row's fields."""
        return sum(column.nbytes for column in self.columns)


def join_columns(columns: list[Column], agents: dict[str, tuple[str, ...]]) -> Schema:
    """A schema of given columns."""
    schema = Schema.__new__(Schema)
    schema._settle(columns, agents)
    for column in columns:
        if any(key == column.key or key.startswith(f"{column.key}/") for key in schema.branches):
            raise SchemaError("field name", "be used once", repr(column.key))
    return schema


def _describe(column: Column) -> str:
    shape = f"[{', '.join(map(str, column.shape))}]" if column.shape else ""
    return f"{column.key}: {column.dtype}{shape}"


def _check_name(name: str) -> None:
    remedy = "Choose another name."
    if not isinstance(name, str) or not name.isidentifier():
        raise SchemaError("field name", "be an identifier", repr(name), remedy)
    if name in RESERVED or hasattr(dict, name) or name.startswith(("final_", "_")):
        raise SchemaError("field name", "not be one that a step or batch uses itself", repr(name), remedy)


def _check_depth(name: str, inner: tuple[str, ...]) -> None:
    if len(inner) > _DEEPEST:  # a file could say a thousand, and recursion ends before
        raise SchemaError(name, f"be nested at most {_DEEPEST} levels deep", len(inner))


def _columns(name: str, value: Any, above: tuple[str, ...], guessed: list[str]) -> list[Column]:
    """The columns of a field; its paths are added to ``guessed`` where no role is stated."""
    _check_name(name)
    found: list[Column] = []

    def walk(part: Any, inner: tuple[str, ...]) -> None:
        _check_depth(name, inner)
        if isinstance(part, Field):
            if part.role is None:
                guessed.append("/".join((*above, name, *inner)))
            found.append(make_column(name, part, above, inner, carried=name.startswith("next_")))
        elif isinstance(part, (Mapping, tuple, list)) and not part:
            raise SchemaError("/".join((*above, name, *inner)), "hold at least one field", repr(part))
        elif isinstance(part, Mapping):
            for key, below in part.items():
                if not isinstance(key, str) or not key or "/" in key:
                    raise SchemaError(name, "be nested under names without a slash", repr(key))
                walk(below, (*inner, key))
        elif isinstance(part, (tuple, list)):
            for index, below in enumerate(part):
                walk(below, (*inner, str(index)))
        else:
            path = "/".join((*above, name, *inner))
            raise SchemaError(path, "be a Field, or a mapping or tuple of them", repr(part))

    walk(value, ())
    return found


def make_column(name: str, field: Field, above: tuple[str, ...], inner: tuple[str, ...], *, carried: bool) -> Column:
    """The column of a field, or of one leaf of a nested field.

    Args:
        above: The group it belongs to, if any.
        inner: Names that lead from the field to the leaf.
        carried: Whether it is the ``next_...`` of an observed field, unless its role says otherwise.
    """
    for part in (*above, name):
        _check_name(part)
    if any(not part or "/" in part for part in inner):
        raise SchemaError(name, "be nested under names without a slash", repr(inner))
    _check_depth(name, inner)

    def path(prefix: str) -> str:
        return "/".join((*above, prefix + name, *inner))

    if field.role is None and name in _UNCLEAR:
        raise SchemaError(path(""), "state its role", "none", _UNCLEAR[name])
    by_name: Role | Literal["next"] = ROLES.get(name, "next" if carried else "plain")
    role = by_name if field.role is None else field.role
    if role == "reward" and field.dtype not in (np.float32, np.float64):
        raise SchemaError(path(""), "be float32 or float64 as a reward", field.dtype, "Give it the role 'plain'.")
    observed = role == "observed"
    return Column(
        path(""),
        field.shape,
        field.dtype,
        role,
        path("final_") if observed else None,
        path("next_") if observed else None,
    )


def _check_next(columns: tuple[Column, ...]) -> bool:
    """True if rows are independent: nothing is observed, or every observed field has its own ``next_...``."""
    keys = [column.key for column in columns]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise SchemaError("field name", "be used once", repr(sorted(twice)[0]))
    made = {key for c in columns for key in (c.next_key, c.final_key) if key}
    taken = sorted(c.key for c in columns if c.key in made and c.role != "next")
    if taken:
        raise SchemaError(taken[0], "not have a role of its own beside the field it follows", "one", "Leave role out.")
    by_key = {column.key: column for column in columns}
    carried = {column.key for column in columns if column.role == "next"}
    observed = [column for column in columns if column.role == "observed"]
    if not carried:
        return not observed
    for column in observed:
        following = by_key.get(column.next_key or "")
        if following is None:
            raise SchemaError(
                str(column.next_key), "be given, as other next fields are", "nothing", "Give all of them or none."
            )
        if (following.shape, following.dtype) != (column.shape, column.dtype):
            raise SchemaError(following.key, f"have the shape and dtype of {column.key}", _describe(following))
    spare = carried - {column.next_key for column in observed}
    if spare:
        key = sorted(spare)[0]
        raise SchemaError(
            key, "belong to an observed field", "none of that name", "Give that field the role 'observed'."
        )
    return True


def _branches(columns: tuple[Column, ...]) -> Iterator[str]:
    for column in columns:
        for key in (column.key, column.final_key):
            parts = key.split("/") if key else []
            for count in range(1, len(parts)):
                yield "/".join(parts[:count])
