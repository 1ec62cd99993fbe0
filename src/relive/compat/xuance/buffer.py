"""What XuanCe's buffers for one agent have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from relive.compat.checks import array, at_least, flags_of, per_environment, within
from relive.compat.nests import field_of, field_of_shape
from relive.compat.saving import Saveable, exclusive
from relive.compat.xuance.arrays import assign, create_memory, sample_batch
from relive.compat.xuance.slots import Slots
from relive.errors import OptionError, Problem, SchemaError, StepError
from relive.memory import Memory, Sampler
from relive.messages import brief
from relive.schema import Field
from relive.types import Array

__all__ = ["Auxiliary", "Buffer", "StepBuffer", "Stored", "image_field"]


class Buffer(ABC):
    """A memory of one agent's steps in parallel environments.

    Args:
        auxiliary_info_shape: Shapes of what else is kept at every step, by name; None where it is an object.
        buffer_size: Steps of all environments together.
    """

    def __init__(
        self, observation_space: Any, action_space: Any, auxiliary_info_shape: Any, num_envs: int, buffer_size: int
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.auxiliary_shape = auxiliary_info_shape
        self.n_envs = at_least("n_envs", num_envs, 1)
        self.buffer_size = at_least("buffer_size", buffer_size, 1)
        self.n_size = per_environment(self.buffer_size, self.n_envs)
        self.size, self.ptr = 0, 0

    @property
    def full(self) -> bool:
        """Whether every new step overwrites an old one."""
        return self.size >= self.n_size

    @abstractmethod
    def store(self, *args: Any) -> None:
        """Store one step of every environment."""

    @abstractmethod
    def clear(self, *args: Any) -> None:
        """Forget everything."""

    @abstractmethod
    def sample(self, *args: Any) -> Any:
        """A batch of steps."""

    def finish_path(self, *args: Any) -> None:  # noqa: B027 - buffers without returns have nothing to do
        """Work out what is known only when an episode has ended."""


@final
class Auxiliary:
    """What else is kept at every step: numbers in rows, objects beside them."""

    def __init__(self, shape: Any, n_envs: int, n_size: int) -> None:
        if isinstance(shape, (int, np.integer, list)):
            shape = tuple(np.atleast_1d(array(shape)).tolist())
        if shape is not None and not isinstance(shape, (tuple, dict)):
            raise SchemaError("auxiliary_shape", "be a shape, a dict of shapes, or None", brief(shape))
        self._single, self._none = isinstance(shape, tuple), shape is None
        numbers: dict[str, Any] = {}
        objects: dict[str, Any] = {}
        if shape is not None and not isinstance(shape, tuple):
            numbers = {key: field_of_shape(f"auxiliary_shape/{key}", n) for key, n in shape.items() if n is not None}
            objects = {key: None for key, n in shape.items() if n is None}
        self.field: Any = field_of_shape("auxiliary_shape", shape) if isinstance(shape, tuple) else numbers or None
        self._object_names = objects
        self._shape = (n_envs, n_size)
        self.clear()

    def clear(self) -> None:
        """Forget the objects."""
        self.objects: dict[str, Array] = create_memory(self._object_names, *self._shape) or {}

    def of_step(self, info: Any) -> tuple[Any, dict[str, Array]]:
        """Numbers for a row and objects for a slot; zeros where there is no information."""
        lead = self._shape[0]
        if info is None or (isinstance(info, Mapping) and not info):
            zeros: Any = None
            if isinstance(self.field, Field):
                zeros = np.zeros((lead, *self.field.shape), np.float32)
            elif self.field is not None:
                zeros = {key: np.zeros((lead, *field.shape), np.float32) for key, field in self.field.items()}
            return zeros, {}
        if self.field is None and not self.objects:
            rule = "be None without an auxiliary_shape"
            raise StepError((Problem("aux_info", rule, "something", "Give the buffer its auxiliary_shape."),))
        if self._single:
            return info, {}
        objects = {}
        for key in self.objects:
            if key not in info:
                raise StepError((Problem(f"aux_info/{key}", "be given", "nothing"),))
            if len(info[key]) != lead:
                raise StepError((Problem(f"aux_info/{key}", f"have {lead} entries", str(len(info[key]))),))
            objects[key] = np.empty(lead, object)
            objects[key][:] = list(info[key])
        return {key: value for key, value in info.items() if key not in self.objects} or None, objects

    def put(self, objects: dict[str, Array], slot: int) -> None:
        """Keep the objects of a step."""
        for key, kept in self.objects.items():
            kept[:, slot] = objects.get(key, 0)

    def arrays(self, slots: Slots) -> Any:
        """All of it as documented: arrays by name, one array, or None."""
        numbers = slots.arrays("aux_info") if self.field is not None else None
        return numbers if self._single or self._none else _Entries({**(numbers or {}), **self.objects})

    def of_batch(self, slots: Slots, batch: Any) -> Any:
        """What belongs to a batch of rows."""
        numbers = slots.of_batch("aux_info", batch) if self.field is not None else None
        if self._single or self._none:
            return numbers
        at = (batch.lanes, batch.serials % slots.n_size)
        return {**(numbers or {}), **sample_batch(self.objects, at)}


class _Entries(dict[str, Array]):
    """Arrays by name; what is assigned to a name is written into its array."""

    def __setitem__(self, key: str, value: Any) -> None:
        assign(key, self[key], value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Write several."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value


class Stored:
    """An attribute that shows the slots of a field ``[n_envs, n_size, ...]``: views, to look into and to write to.

    What is assigned to the attribute is written into them.
    """

    def __init__(self, field: str) -> None:
        self._field = field

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, buffer: Any, owner: type | None = None) -> Any:
        return self if buffer is None else buffer._slots.arrays(self._field)

    def __set__(self, buffer: Any, value: Any) -> None:
        assign(self._name, buffer._slots.arrays(self._field), value)


class StepBuffer(Buffer, Saveable):
    """A buffer whose steps lie in slots."""

    def _setup(self, fields: dict[str, Any], *, sampler: Sampler | None, seed: int | None) -> None:
        at_least("buffer_size", self.buffer_size, 2 * self.n_envs)
        self._aux = Auxiliary(self.auxiliary_shape, self.n_envs, self.n_size)
        fields |= {"acts": field_of("action_space", self.action_space), "rews": Field((), "float32", role="plain")}
        fields["terminals"] = Field((), "bool", role="plain")
        if self._aux.field is not None:
            fields["aux_info"] = self._aux.field
        self._slots = Slots(fields, self.n_envs, self.n_size, sampler=sampler, seed=seed)

    @exclusive
    def _put(self, step: dict[str, Any], terminals: Any, aux_info: Any, truncations: Any) -> None:
        lead = (self.n_envs,)
        terminated = flags_of("terminals", terminals, lead)
        truncated = None if truncations is None else flags_of("truncations", truncations, lead)
        within("acts", self.action_space, step["acts"])
        numbers, objects = self._aux.of_step(aux_info)
        if self._aux.field is not None:
            step["aux_info"] = numbers
        slot = self._slots.ptr
        self._slots.append({**step, "terminals": terminated}, terminated, truncated)
        self._aux.put(objects, slot)
        self.ptr, self.size = self._slots.ptr, self._slots.size

    @exclusive
    def _forget(self) -> None:
        self._slots.clear()
        self._aux.clear()
        self.ptr, self.size = 0, 0

    observations = Stored("obs")
    actions = Stored("acts")
    rewards = Stored("rews")
    terminals = Stored("terminals")

    @property
    def truncations(self) -> Array:
        """Which steps were cut off by a time limit, as far as ``store`` got ``truncations``; a copy."""
        return self._slots.truncations()

    @property
    def auxiliary_infos(self) -> Any:
        """Auxiliary information."""
        return self._aux.arrays(self._slots)

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        if self._aux.objects:
            raise OptionError("auxiliary_shape", "have shapes to be saved", "objects", "Keep numbers instead.")
        return self._slots.memory, {"count": self._slots.count}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        self._slots.adopt(memory, notes["count"])
        self.ptr, self.size = self._slots.ptr, self._slots.size


def image_field(space: Any) -> Field:
    """The field of images, in bytes."""
    shape = getattr(space, "shape", None)
    if shape is None or getattr(space, "spaces", None) is not None:
        raise SchemaError("observation_space", "be a Box of images", repr(space))
    return Field(tuple(shape), "uint8", role="plain")
