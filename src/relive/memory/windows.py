"""Windows: what a drawn row expands into. They hold settings; the core reads the rows."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np

from relive.errors import OptionError
from relive.memory.checks import real, whole
from relive.schema import Column, Schema

__all__ = ["Episodes", "NStep", "OutputSpec", "Sequence", "Transition", "Window", "WindowSpec"]

OutputSpec: TypeAlias = tuple[str, int, int, int, int, tuple[int, ...]]
WindowSpec: TypeAlias = tuple[int, int, int, int, float, bool, bool, bool]


class What(enum.IntEnum):
    """What an output array holds; the numbers are the core's."""

    FIRST = 0
    NEXT = 1
    LAST = 2
    REWARD = 3
    DISCOUNT = 4
    TERMINATED = 5
    TRUNCATED = 6
    STEPS = 7
    THROUGH = 8
    NEXTS = 9
    STARTS = 10
    MASK = 11
    LENGTHS = 12
    WEIGHTS = 13
    SERIALS = 14
    LANES = 15


@runtime_checkable
class Window(Protocol):
    """A way of reading rows."""

    def spec(self) -> WindowSpec:
        """The window as the core takes it: kind, length, burn_in, stride, gamma, across, packed, fixed."""
        ...

    def outputs(self, schema: Schema, stack: Mapping[str, int]) -> list[OutputSpec]:
        """The arrays of a batch as the core takes them: key, what, field, stack, dtype number, shape of a value."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Transition:
    """One-step transitions: fields ``[B, ...]``, ``next_...`` of observed ones, ``discount`` gamma, or 0 if terminated.

    A target is ``reward + discount * value(next_obs)``, with this window as with every other.
    """

    gamma: float = 0.99

    def __post_init__(self) -> None:
        _set_gamma(self)

    def spec(self) -> WindowSpec:
        """The window as the core takes it."""
        return (0, 1, 0, 0, self.gamma, False, False, False)

    def outputs(self, schema: Schema, stack: Mapping[str, int]) -> list[OutputSpec]:
        """The arrays of a batch as the core takes them."""
        return _step_outputs(schema, stack)


@final
@dataclass(frozen=True, slots=True)
class NStep:
    """n-step transitions: the discounted sum of up to ``n`` rewards of one episode, ``next_...`` after the last.

    ``discount`` is gamma^k for k steps taken, 0 if the episode terminated among them; a target is
    ``reward + discount * value(next_obs)``.
    """

    n: int
    gamma: float = 0.99

    def __post_init__(self) -> None:
        _set_count(self, "n")
        _set_gamma(self)

    def spec(self) -> WindowSpec:
        """The window as the core takes it."""
        return (0, self.n, 0, 0, self.gamma, False, False, False)

    def outputs(self, schema: Schema, stack: Mapping[str, int]) -> list[OutputSpec]:
        """The arrays of a batch as the core takes them."""
        return _step_outputs(schema, stack)


@final
@dataclass(frozen=True, slots=True)
class Sequence:
    """``length`` consecutive steps, after up to ``burn_in`` earlier ones of the same episode for the recurrent state.

    Fields are ``[B, T, ...]`` with T = burn_in + length; observed fields are ``[B, T + 1, ...]``, with the observation
    after the last step. Steps to train on are ``[:, burn_in:]``: missing burn-in is zero-padded on the left, missing
    steps on the right. ``mask [B, T]`` is True for the steps to train on, ``lengths [B]`` counts them, and
    ``starts [B, T]`` is True where an episode begins and a recurrent state is reset. ``discount [B, T]`` is 0 where a
    step terminated, else gamma. A drawn row is the first after the burn-in, so every step of an episode is trained on
    equally often.

    Args:
        overlap: Steps shared by neighbouring sequences; sequences then start only every ``length - overlap`` steps
            of an episode. None: any row may start one.
        across: Continue across episode ends. Observed fields are then ``[B, T, ...]`` with ``next_...`` beside them.
        start_fields: Fields read at the first real row only, ``[B, ...]``, such as a stored recurrent state.
    """

    length: int
    burn_in: int = 0
    overlap: int | None = None
    across: bool = False
    start_fields: str | tuple[str, ...] = ()
    gamma: float = 0.99

    def __post_init__(self) -> None:
        _set_count(self, "length")
        _set_count(self, "burn_in", least=0)
        if self.overlap is not None:
            _set_count(self, "overlap", least=0, most=self.length - 1)
        if isinstance(self.start_fields, str):
            object.__setattr__(self, "start_fields", (self.start_fields,))
        _set_gamma(self)

    def spec(self) -> WindowSpec:
        """The window as the core takes it."""
        stride = 0 if self.overlap is None else self.length - self.overlap
        return (1, self.length, self.burn_in, stride, self.gamma, bool(self.across), False, False)

    def outputs(self, schema: Schema, stack: Mapping[str, int]) -> list[OutputSpec]:
        """The arrays of a batch as the core takes them."""
        for name in self.start_fields:
            if not any(_belongs(column.key, name) for column in schema):
                known = ", ".join(column.key for column in schema)
                raise OptionError("start_fields", f"name fields of the schema ({known})", repr(name))
        return _span_outputs(schema, stack, across=self.across, starts=True, start_fields=tuple(self.start_fields))


@final
@dataclass(frozen=True, slots=True)
class Episodes:
    """Complete episodes, zero-padded to ``[B, T, ...]``.

    Observed fields are ``[B, T + 1, ...]``. ``mask [B, T]`` is True for real steps, ``lengths [B]`` counts
    them, ``discount [B, T]`` is 0 where a step terminated, else gamma.

    Args:
        length: T; longer episodes are truncated. None: the longest of the batch.
        packed: Concatenate episodes, ``[sum of lengths, ...]``, without padding.
    """

    length: int | None = None
    packed: bool = False
    gamma: float = 0.99

    def __post_init__(self) -> None:
        if self.length is not None:
            _set_count(self, "length")
        _set_gamma(self)

    def spec(self) -> WindowSpec:
        """The window as the core takes it."""
        return (2, self.length or 0, 0, 0, self.gamma, False, bool(self.packed), self.length is not None)

    def outputs(self, schema: Schema, stack: Mapping[str, int]) -> list[OutputSpec]:
        """The arrays of a batch as the core takes them."""
        return _span_outputs(schema, stack, across=False, starts=False, start_fields=())


def _set_count(window: Any, name: str, least: int = 1, most: int = 1 << 31) -> None:
    object.__setattr__(window, name, whole(name, getattr(window, name), least, most))


def _set_gamma(window: Any) -> None:
    object.__setattr__(window, "gamma", real("gamma", window.gamma, 0, 1))


def _belongs(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}/")


def _frames(column: Column, stack: Mapping[str, int]) -> int:
    if column.role != "observed":
        return 1
    return next((frames for name, frames in stack.items() if _belongs(column.key, name)), 1)


def _of_field(key: str, what: What, index: int, column: Column, frames: int) -> OutputSpec:
    shape = (frames, *column.shape) if frames > 1 else column.shape
    return (key, int(what), index, frames, column.dtype.num, shape)


def _computed(key: str, what: What, dtype: Any) -> OutputSpec:
    return (key, int(what), -1, 1, np.dtype(dtype).num, ())


def _rows() -> list[OutputSpec]:
    return [
        _computed("weights", What.WEIGHTS, np.float32),
        _computed("serials", What.SERIALS, np.int64),
        _computed("lanes", What.LANES, np.int64),
    ]


def _step_outputs(schema: Schema, stack: Mapping[str, int]) -> list[OutputSpec]:
    outputs: list[OutputSpec] = []
    for index, column in enumerate(schema):
        frames = _frames(column, stack)
        if column.role == "next":
            outputs.append(_of_field(column.key, What.LAST, index, column, frames))
            continue
        what = What.REWARD if column.role == "reward" else What.FIRST
        outputs.append(_of_field(column.key, what, index, column, frames))
        if column.next_key is not None and not schema.loose:
            outputs.append(_of_field(column.next_key, What.NEXT, index, column, frames))
    outputs += [
        _computed("terminated", What.TERMINATED, np.bool_),
        _computed("truncated", What.TRUNCATED, np.bool_),
        _computed("discount", What.DISCOUNT, np.float32),
    ]
    return outputs + _rows()


def _span_outputs(
    schema: Schema, stack: Mapping[str, int], *, across: bool, starts: bool, start_fields: tuple[str, ...]
) -> list[OutputSpec]:
    outputs: list[OutputSpec] = []
    for index, column in enumerate(schema):
        frames = _frames(column, stack)
        if any(_belongs(column.key, name) for name in start_fields):
            outputs.append(_of_field(column.key, What.FIRST, index, column, frames))
            continue
        through = column.next_key is not None and not schema.loose and not across
        outputs.append(_of_field(column.key, What.THROUGH if through else What.STEPS, index, column, frames))
        if column.next_key is not None and not schema.loose and across:
            outputs.append(_of_field(column.next_key, What.NEXTS, index, column, frames))
    outputs += [
        _computed("terminated", What.TERMINATED, np.bool_),
        _computed("truncated", What.TRUNCATED, np.bool_),
        _computed("discount", What.DISCOUNT, np.float32),
        _computed("mask", What.MASK, np.bool_),
        _computed("lengths", What.LENGTHS, np.int64),
    ]
    if starts:
        outputs.append(_computed("starts", What.STARTS, np.bool_))
    return outputs + _rows()


def rows_read(spec: WindowSpec, frames: int) -> int:
    """Rows that a lane must have for the window ever to be complete."""
    kind, length, burn_in, *_ = spec
    return 2 if kind == 2 else length + burn_in + frames
