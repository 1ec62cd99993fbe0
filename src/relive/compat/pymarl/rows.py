"""Episodes as rows of a memory: only steps that happened, whole numbers as small as they are, nothing twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, final

import numpy as np
import torch

from relive.compat.episodes import EpisodeRing
from relive.compat.pymarl.scheme import Preprocess, Scheme, shape_of, type_of
from relive.compat.pymarl.values import array_of
from relive.memory import Memory, Sequence
from relive.schema import Field, Schema
from relive.types import Array

__all__ = ["EpisodeRows"]

Tensors: TypeAlias = dict[str, torch.Tensor]


@final
class EpisodeRows:
    """The newest episodes of a replay buffer.

    Whole numbers are kept in a byte each until one does not fit, and then as the scheme says. What transforms make is
    not kept but made again on reading, until something else is found in its place.
    """

    def __init__(
        self,
        scheme: Scheme,
        groups: Mapping[str, int],
        preprocess: Preprocess,
        count: int,
        steps: int,
        seed: int | None,
        layout: dict[str, Any] | None = None,
    ) -> None:
        self._scheme = {name: about for name, about in scheme.items() if not about.get("episode_const", False)}
        self._shapes = {name: shape_of(about, groups) for name, about in self._scheme.items()}
        self._types = {name: type_of(about) for name, about in self._scheme.items()}
        self._preprocess = preprocess
        self._count, self._steps = count, steps
        self._names = {name: f"v{i}" for i, name in enumerate(self._scheme)}
        self._sources = {made: source for source, (made, _) in preprocess.items() if made in self._scheme}
        self._made = dict(self._sources)  # as long as what is there is what transforms make
        self._wide: set[str] = set(layout["wide"] if layout else ())
        for name in layout["kept"] if layout else ():
            self._made.pop(name, None)
        self.ring = self._new_ring(seed)

    # ---- layout ----------------------------------------------------------------------------------------------------

    def _field_of(self, name: str) -> Field:
        if name in self._made:
            return Field((), "bool", role="plain")  # whether it was made in this row, or is zero
        dtype = _stored_type(type_of(self._scheme[name]))
        if dtype.kind in "iu" and name not in self._wide:
            dtype = np.dtype("uint8")
        return Field(self._shapes[name], dtype, role="plain")

    def _new_ring(self, seed: int | None) -> EpisodeRing:
        self._fields = {name: self._field_of(name) for name in self._scheme}
        schema = Schema(reward=None, **{self._names[name]: field for name, field in self._fields.items()})
        return EpisodeRing(schema, self._count, self._steps, Sequence(self._steps), seed)

    def layout(self) -> dict[str, Any]:
        """What was found to need more room, for snapshots."""
        return {"wide": sorted(self._wide), "kept": sorted(set(self._sources) - set(self._made))}

    def _give_room(self, names: set[str]) -> None:
        """Keep values as they are from now on, those of the episodes that are there too."""
        episodes = list(self._episodes(names))
        for name in names:
            if self._made.pop(name, None) is None:
                self._wide.add(name)
        self._rebuild(episodes)

    def _rebuild(self, episodes: list[tuple[dict[str, Array], int]]) -> None:
        """Put the episodes that are there, oldest first, into rows of their own again."""
        old = self.ring
        self.ring = self._new_ring(0)
        self.ring.memory.random_state = old.memory.random_state
        self.ring.put = old.put - old.size
        for steps, length in episodes:
            self._append(steps, length)

    def _episodes(self, names: set[str]) -> Iterator[tuple[dict[str, Array], int]]:
        """Rows of every episode, oldest first, some of them as the scheme has them."""
        ring = self.ring
        for k in range(ring.put - ring.size, ring.put):
            place = k % ring.count
            rows = {name: ring.rows(self._names[name], place) for name in self._scheme}
            for name in names & set(self._made):
                rows[name] = self._make(name, torch.from_numpy(rows[self._made[name]]), rows[name]).numpy()
            yield rows, int(ring.lengths[place])

    # ---- writing ---------------------------------------------------------------------------------------------------

    def insert(self, tensors: Tensors) -> None:
        """Put episodes in: tensors ``[episodes, steps, ...]`` by name, of the scheme's dtypes."""
        for steps, length in self._packed(tensors):
            self._append(steps, length)

    def replace(self, places: Array, tensors: Tensors) -> None:
        """Put other episodes in the places of some."""
        packed = dict(zip(places.tolist(), self._packed(tensors), strict=True))
        first = self.ring.put - self.ring.size
        there = enumerate(self._episodes(set()), first)
        self._rebuild([packed.get(k % self.ring.count, episode) for k, episode in there])

    def _packed(self, tensors: Tensors) -> list[tuple[dict[str, Array], int]]:
        """Rows of episodes and how many there are, once there is room for all that they hold."""
        tensors = tensors | {made: self._made_here(made, tensors) for made in self._sources if made not in tensors}
        arrays = {name: array_of(tensor) for name, tensor in tensors.items()}
        while True:
            made = {name: self._made_rows(name, tensors, arrays[name]) for name in self._made}
            larger = {name for name, rows in made.items() if rows is None} | self._too_large(arrays)
            if not larger:
                break
            self._give_room(larger)
        rows = arrays | {name: flags for name, flags in made.items() if flags is not None}
        packed = []
        for episode in range(len(arrays["filled"])):
            length = max(1, _used(arrays["filled"][episode]))
            for array in rows.values():
                length += _used(array[episode, length:])
            packed.append(({name: array[episode, :length] for name, array in rows.items()}, length))
        return packed

    def _append(self, steps: dict[str, Array], length: int) -> None:
        fields = {
            self._names[name]: np.ascontiguousarray(rows, self._fields[name].dtype) for name, rows in steps.items()
        }
        self.ring.append(fields, length, terminated=False)

    def _too_large(self, arrays: dict[str, Array]) -> set[str]:
        found = set()
        for name, array in arrays.items():
            narrow = array.dtype.kind in "iu" and name not in self._wide and name not in self._made
            if narrow and array.dtype != np.uint8 and (array >> 8).any():
                found.add(name)
        return found

    def _made_rows(self, name: str, tensors: Tensors, there: Array) -> Array | None:
        """Which rows ``[episodes, steps]`` hold what the transforms make; None if others hold more than zeros."""
        expected = array_of(self._transformed(name, tensors[self._sources[name]]))
        made = np.asarray(there.reshape(*there.shape[:2], -1).any(axis=2))
        rest = (1,) * (there.ndim - 2)
        return made if np.array_equal(there, expected * made.reshape(*made.shape, *rest)) else None

    def _made_here(self, name: str, tensors: Tensors) -> torch.Tensor:
        """What a batch that does not have it would have: made in steps that are filled."""
        flags = array_of(tensors["filled"])[..., 0] != 0
        return self._make(name, tensors[self._sources[name]], flags)

    def _transformed(self, name: str, source: torch.Tensor) -> torch.Tensor:
        made = source
        for transform in self._preprocess[self._sources[name]][1]:
            made = transform.transform(made)
        lead = source.shape[: source.ndim - len(self._shapes[self._sources[name]])]
        return made.reshape(*lead, *self._shapes[name]).to(self._types[name])

    # ---- reading ---------------------------------------------------------------------------------------------------

    def read(self, places: Array) -> Tensors:
        """Episodes ``[episodes, steps, ...]`` by name, of the scheme's dtypes; zeros where there is none."""
        there = places < self.ring.size
        batch = self.ring.read(places[there]) if there.any() else None
        tensors: Tensors = {}
        flags: dict[str, Array] = {}
        for name in self._scheme:
            if batch is not None and len(batch.serials) == len(places):
                rows: Array = batch[self._names[name]]
            else:
                field = self._fields[name]
                rows = np.zeros((len(places), self._steps, *field.shape), field.dtype)
                if batch is not None:
                    rows[there] = batch[self._names[name]]
            if name in self._made:
                flags[name] = rows
            else:
                tensors[name] = torch.from_numpy(rows).to(self._types[name])
        for name, rows in flags.items():
            tensors[name] = self._make(name, tensors[self._made[name]], rows)
        return {name: tensors[name] for name in self._scheme}

    def _make(self, name: str, source: torch.Tensor, flags: Array) -> torch.Tensor:
        """What transforms make of a source ``[..., steps, ...]``, where a row says that it was made."""
        made = self._transformed(name, source.to(self._types[self._sources[name]]))
        there = torch.from_numpy(flags)
        there = there.reshape(*there.shape, *(1,) * (made.ndim - there.ndim))
        return torch.where(there, made, torch.zeros((), dtype=made.dtype))

    @property
    def memory(self) -> Memory:
        """The rows."""
        return self.ring.memory


def _stored_type(dtype: torch.dtype) -> np.dtype[Any]:
    stored: np.dtype[Any] = array_of(torch.empty(0, dtype=dtype)).dtype
    return stored


def _used(rows: Array) -> int:
    """Rows up to the last that is not all zeros."""
    if not rows.any():
        return 0
    return int(np.flatnonzero(rows.reshape(len(rows), -1).any(axis=1))[-1]) + 1
