"""Episodes as arrays along time, for reading and writing datasets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from relive import _core
from relive.errors import DatasetError
from relive.memory.storage import Layout
from relive.schema import Field, Schema
from relive.types import Array

if TYPE_CHECKING:
    from relive.memory.memory import Memory

__all__ = ["Episode", "field_of", "read_episodes", "write_episode"]


@final
@dataclass(frozen=True)
class Episode:
    """T steps by column: ``[T + 1, ...]`` for observed fields, ``[T, ...]`` for others.

    With ``next_...`` fields in the schema, all are ``[T, ...]``.
    """

    columns: dict[str, Array]
    terminated: bool
    truncated: bool

    @property
    def steps(self) -> int:
        """T."""
        return min((len(values) for values in self.columns.values()), default=0)


def read_episodes(store: _core.Store, layout: Layout, table: Any) -> Iterator[Episode]:
    """The complete episodes, lane by lane, oldest first.

    Episodes that are overwritten before their turn are skipped.
    """
    schema, span = layout.schema, layout.span
    views = {column.key: store.view(index, False) for index, column in enumerate(schema)}
    for at in np.flatnonzero((table.terminated | table.truncated) & table.whole):
        lane, start, length = int(table.lane[at]), int(table.start[at]), int(table.length[at])
        columns = {}
        for column in schema:
            more = column.role == "observed" and not schema.loose
            columns[column.key] = views[column.key][lane, (start + np.arange(length + more)) % span]
        if store.lost(lane)[0] <= start:
            yield Episode(columns, bool(table.terminated[at]), bool(table.truncated[at]))


def write_episode(memory: Memory, episode: Episode) -> None:
    """Append an episode to a memory's one lane."""
    steps = episode.steps
    if steps == 0:
        return
    block: dict[str, Any] = {"terminated": np.zeros(steps, bool), "truncated": np.zeros(steps, bool)}
    block["terminated"][-1], block["truncated"][-1] = episode.terminated, episode.truncated
    for column in memory.schema:
        values = episode.columns[column.key]
        block[column.key] = values[:steps]
        if column.final_key is not None and not memory.schema.loose and len(values) > steps:
            block[column.final_key] = values[steps : steps + 1]
    memory.extend(lanes=0, **block)
    if not (episode.terminated or episode.truncated):
        memory.cut()


def field_of(name: str, array: Array, *, float64: bool, role: Any = None) -> Field:
    """The field that holds values ``[T, ...]`` of a foreign dataset."""
    dtype = array.dtype
    if dtype == np.float64 and not float64:
        dtype = np.dtype(np.float32)
    if dtype.kind not in "biuf":
        raise DatasetError(name, "hold numbers", str(array.dtype), "Leave it out.")
    return Field(array.shape[1:], dtype, role)


def fits(values: Array, field: Field) -> Array:
    """Values in a field's dtype, rounded only from float64 to float32."""
    return values if values.dtype == field.dtype else values.astype(field.dtype)


def one_obs_and_action(schema: Schema, kind: str) -> None:
    """Refuse a schema that a flat format cannot hold."""
    observed = [column.key for column in schema if column.role == "observed"]
    missing = [key for key in ("obs", "action", "reward") if not any(column.key == key for column in schema)]
    if missing or observed != ["obs"] or schema["reward"].shape != ():
        raise DatasetError(
            kind, "be given one obs, one action and a reward a step", str(schema), "Minari and npz hold any schema."
        )
