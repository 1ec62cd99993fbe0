"""Values of agents by their names, kept side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from relive.compat.checks import flags_of, plain
from relive.compat.nests import field_of
from relive.errors import OptionError, Problem, SchemaError, StepError
from relive.schema import Field
from relive.types import Array

__all__ = ["Agents", "Shared", "spaces_by_agent"]


def spaces_by_agent(name: str, spaces: Any, keys: Sequence[str]) -> dict[str, Field]:
    """The field of every agent's space or shape."""
    inner = getattr(spaces, "spaces", spaces)
    if not isinstance(inner, Mapping) or any(key not in inner for key in keys):
        raise OptionError(name, f"have a space for each of {', '.join(keys)}", repr(spaces))
    fields = {key: field_of(f"{name}/{key}", inner[key]) for key in keys}
    for key, field in fields.items():
        if not isinstance(field, Field):
            raise SchemaError(f"{name}/{key}", "be one space, not a nest of them", repr(inner[key]), "Flatten it.")
    return fields


@final
class Shared:
    """A value that agents have in common, such as the state."""

    def __init__(self, field: Field) -> None:
        self.field: Any = field

    def packed(self, name: str, value: Any, lead: tuple[int, ...]) -> Any:  # noqa: ARG002 - as of agents
        """A value as it is stored; one for all environments is each one's."""
        array = np.asarray(plain(value))
        return np.broadcast_to(array, (*lead, *array.shape)) if array.shape == self.field.shape else array

    def unpacked(self, stored: Any, axis: int) -> Any:  # noqa: ARG002 - as of agents
        """What was stored, as it was given."""
        return stored

    def zeros(self, lead: tuple[int, ...]) -> Any:
        """Room for values."""
        return np.zeros((*lead, *self.field.shape), self.field.dtype)


@final
class Agents:
    """A value of every agent: in one array with an axis of agents where all are alike, otherwise in one array each.

    Args:
        fields: By agent.
    """

    def __init__(self, fields: Mapping[str, Field], *, observed: bool = False) -> None:
        self._fields = dict(fields)
        role: Any = "observed" if observed else "plain"
        first = next(iter(fields.values()))
        self._alike = all((each.shape, each.dtype) == (first.shape, first.dtype) for each in fields.values())
        self.field: Any = (
            Field((len(fields), *first.shape), first.dtype, role=role)
            if self._alike
            else {f"a{i}": Field(each.shape, each.dtype, role=role) for i, each in enumerate(fields.values())}
        )

    def packed(self, name: str, value: Any, lead: tuple[int, ...]) -> Any:
        """Values by agent ``[*lead, ...]`` as they are stored.

        Raises:
            StepError: With every agent that is missing or whose value does not fit.
        """
        if self._alike and isinstance(value, dict):
            given = [value.get(key) for key in self._fields]
            shape = (*lead, *self.field.shape[1:])
            if all(type(each) is np.ndarray and each.shape == shape for each in given):  # as nearly always
                together = np.ascontiguousarray(np.array(given).swapaxes(0, len(lead)))
                if self.field.dtype != np.bool_ or together.dtype == np.bool_:
                    return together
        problems: list[Problem] = []
        arrays = [self._array(f"{name}/{key}", value, key, lead, problems) for key in self._fields]
        if problems:
            raise StepError(tuple(problems))
        return np.stack(arrays, len(lead)) if self._alike else {f"a{i}": array for i, array in enumerate(arrays)}

    def _array(self, name: str, value: Any, key: str, lead: tuple[int, ...], problems: list[Problem]) -> Array:
        field, shape = self._fields[key], (*lead, *self._fields[key].shape)
        given = value.get(key) if isinstance(value, Mapping) else None
        if given is None:
            problems.append(Problem(name, "be given", "nothing"))
            return np.zeros(shape)
        array = np.asarray(plain(given))
        if array.shape != shape and array.size == int(np.prod(shape)) and _without_ones(array) == _without_ones(shape):
            array = array.reshape(shape)
        if array.shape != shape:
            problems.append(Problem(name, f"have shape {list(shape)}", str(list(array.shape))))
        elif field.dtype == np.bool_:
            try:
                return flags_of(name, array, shape)
            except StepError as error:
                problems += error.problems
        return array

    def unpacked(self, stored: Any, axis: int) -> dict[str, Array]:
        """Values by agent: views of what was stored.

        Args:
            axis: That of agents, in arrays of all.
        """
        if self._alike:
            return {key: stored[(slice(None),) * axis + (i,)] for i, key in enumerate(self._fields)}
        return {key: stored[f"a{i}"] for i, key in enumerate(self._fields)}

    def zeros(self, lead: tuple[int, ...]) -> Any:
        """Room for values."""
        if self._alike:
            return np.zeros((*lead, *self.field.shape), self.field.dtype)
        return {name: np.zeros((*lead, *field.shape), field.dtype) for name, field in self.field.items()}


def _without_ones(shape: Any) -> tuple[int, ...]:
    return tuple(n for n in getattr(shape, "shape", shape) if n != 1)
