"""PyMARL's replay buffer of whole episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import torch

from relive.compat.checks import at_least
from relive.compat.drawing import generator
from relive.compat.pymarl.batch import EpisodeBatch
from relive.compat.pymarl.indexing import parsed
from relive.compat.pymarl.rows import EpisodeRows
from relive.compat.pymarl.scheme import Preprocess, Scheme, TooFew, UnknownName, completed, device_of, shape_of, type_of
from relive.compat.pymarl.values import array_of
from relive.compat.saving import Saveable, exclusive
from relive.errors import OptionError
from relive.memory import Memory
from relive.messages import brief
from relive.types import Array

__all__ = ["ReplayBuffer"]


class ReplayBuffer(Saveable):
    """The newest ``buffer_size`` episodes, known by their place: 0, 1, ... and round again.

    Only steps that happened take memory. What comes out is a batch of its own, with the scheme's dtypes.

    Args:
        scheme: As of ``EpisodeBatch``.
        device: Where batches that come out should be.
    """

    def __init__(
        self,
        scheme: Mapping[str, Any],
        groups: Mapping[str, int],
        buffer_size: int,
        max_seq_length: int,
        preprocess: Preprocess | None = None,
        device: Any = "cpu",
        *,
        seed: int | None = None,
    ) -> None:
        self.groups = groups
        self.preprocess = {} if preprocess is None else preprocess
        self.scheme: Scheme = completed(scheme, groups, self.preprocess)
        self.batch_size = self.buffer_size = at_least("buffer_size", buffer_size, 1)
        self.max_seq_length = at_least("max_seq_length", max_seq_length, 1)
        self.device = device_of(device)
        self._about = {name: (shape_of(about, groups), type_of(about)) for name, about in self.scheme.items()}
        self._made = {made: source for source, (made, _) in self.preprocess.items()}
        self._rows = self._new_rows(seed)
        self._constants = {
            name: torch.zeros((self.buffer_size, *shape_of(about, groups)), dtype=type_of(about))
            for name, about in self.scheme.items()
            if about.get("episode_const", False)
        }

    @property
    def buffer_index(self) -> int:
        """The place of the next episode."""
        return self._rows.ring.next

    @property
    def episodes_in_buffer(self) -> int:
        """Episodes that are there."""
        return self._rows.ring.size

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that there are now."""
        ring = self._rows.ring
        used = int(ring.lengths[: ring.size].sum()) * (ring.memory.schema.row_nbytes + 1)
        return used + sum(tensor.nbytes for tensor in self._constants.values())

    @property
    def data(self) -> SimpleNamespace:
        """Tensors of all places by name, made when they are asked for; copies."""
        steps = [name for name in self.scheme if name not in self._constants]
        return SimpleNamespace(transition_data=_Made(self, steps), episode_data=_Made(self, list(self._constants)))

    @exclusive
    def insert_episode_batch(self, ep_batch: Any) -> None:
        """Put a batch of episodes in; each replaces the oldest once there are ``buffer_size``.

        Raises:
            KeyError: If the batch has a name that the scheme does not have. Nothing is stored then.
        """
        if not all(hasattr(ep_batch, name) for name in ("data", "batch_size", "max_seq_length")):
            raise OptionError("ep_batch", "be an EpisodeBatch", brief(ep_batch))
        steps, constants = ep_batch.data.transition_data, ep_batch.data.episode_data
        for name in (*steps, *constants):
            if name not in self.scheme:
                raise UnknownName("name", f"be one of {', '.join(self.scheme)}", repr(name))
        if ep_batch.max_seq_length > self.max_seq_length:
            rule = f"have at most {self.max_seq_length} steps"
            raise OptionError(
                "ep_batch", rule, ep_batch.max_seq_length, "Make the buffer with a larger max_seq_length."
            )
        count = ep_batch.batch_size
        if count < 1 or ep_batch.max_seq_length < 1:
            raise OptionError("ep_batch", "have an episode and a step", f"{count} and {ep_batch.max_seq_length}")
        whole = {}
        for name, (shape, dtype) in self._about.items():
            lead = (count,) if name in self._constants else (count, ep_batch.max_seq_length)
            source = (constants if name in self._constants else steps).get(name)
            if source is None and name in self._made and self._made[name] in steps:
                continue
            if source is None:
                source = torch.zeros((*lead, *shape), dtype=dtype)
            elif tuple(source.shape) != (*lead, *shape):
                raise OptionError(name, f"have shape {[*lead, *shape]}", list(source.shape))
            whole[name] = source.detach().to("cpu", dtype)
        places = (self.buffer_index + np.arange(count)) % self.buffer_size
        self._rows.insert({name: tensor for name, tensor in whole.items() if name not in self._constants})
        for name, kept in self._constants.items():
            for place, value in zip(places, whole[name], strict=True):
                kept[place] = value
        self._inserted(places)

    def _inserted(self, places: Array) -> None:
        """What a kind of buffer does with the places of new episodes."""

    @exclusive
    def update(
        self, data: Mapping[str, Any], bs: Any = slice(None), ts: Any = slice(None), mark_filled: bool = True
    ) -> None:
        """Change episodes that are there, as ``EpisodeBatch.update`` does. Slow: all rows are packed again."""
        which, when = parsed((bs, ts), self.buffer_size, self.max_seq_length)
        places = np.arange(self.buffer_size)[which] if isinstance(which, slice) else which.numpy()
        if places.size and places.max() >= self.episodes_in_buffer:
            rule = f"name episodes that are there (0 to {self.episodes_in_buffer - 1})"
            raise OptionError("bs", rule, int(places.max()), "New ones come by insert_episode_batch.")
        batch = self._read(places)
        batch.to("cpu")
        batch.update(data, slice(None), when, mark_filled)
        self._rows.replace(places, batch.data.transition_data)
        for name, kept in self._constants.items():
            kept[torch.from_numpy(places)] = batch.data.episode_data[name]

    def to(self, device: Any) -> None:
        """Have batches come out on another device; episodes stay in the memory."""
        self.device = device_of(device)

    def max_t_filled(self) -> torch.Tensor:
        """Steps of the longest episode, as an int64 tensor ``[1]``."""
        return self._whole("filled").sum(1).max(0)[0]

    def can_sample(self, batch_size: int) -> bool:
        """Whether there are as many episodes."""
        return self.episodes_in_buffer >= at_least("batch_size", batch_size, 0)

    def sample(self, batch_size: int) -> EpisodeBatch:
        """Different episodes, all equally likely; if there are no more than asked for, all of them in order."""
        return self.uni_sample(batch_size)

    @exclusive
    def uni_sample(self, batch_size: int) -> EpisodeBatch:
        """The same as ``sample``."""
        self._check_count(batch_size)
        if self.episodes_in_buffer == batch_size:
            return self._read(np.arange(batch_size))
        random = generator(self._rows.memory)
        return self._read(random.choice(self.episodes_in_buffer, batch_size, replace=False))

    @exclusive
    def sample_latest(self, batch_size: int) -> EpisodeBatch:
        """The newest episodes, oldest first."""
        self._check_count(batch_size)
        newest = self._rows.ring.put
        return self._read(np.arange(newest - batch_size, newest) % self.buffer_size)

    def _check_count(self, batch_size: int) -> None:
        at_least("batch_size", batch_size, 1)
        if not self.can_sample(batch_size):
            there = f"{self.episodes_in_buffer}"
            raise TooFew("buffer", f"hold {batch_size} episodes", there, "Ask can_sample before.")

    @exclusive
    def _read(self, places: Array) -> EpisodeBatch:
        which = torch.from_numpy(np.asarray(places, np.int64))
        data = SimpleNamespace(
            transition_data=self._rows.read(np.asarray(places, np.int64)),
            episode_data={name: tensor.index_select(0, which) for name, tensor in self._constants.items()},
        )
        count, steps = len(places), self.max_seq_length
        batch = EpisodeBatch(self.scheme, self.groups, count, steps, data, self.preprocess, "cpu")
        if str(self.device) != "cpu":
            batch.to(self.device)
        return batch

    def __getitem__(self, item: Any) -> Any:
        """The tensor of a name, a batch of some names, or of some episodes and times; always copies."""
        if isinstance(item, str) or (isinstance(item, tuple) and item and all(isinstance(n, str) for n in item)):
            names = (item,) if isinstance(item, str) else item
            tensors = {name: self._whole(name) for name in names}
            if isinstance(item, str):
                return tensors[item]
            data = SimpleNamespace(
                transition_data={name: tensor for name, tensor in tensors.items() if name not in self._constants},
                episode_data={name: tensor for name, tensor in tensors.items() if name in self._constants},
            )
            scheme = {name: self.scheme[name] for name in names}
            return EpisodeBatch(scheme, self.groups, self.buffer_size, self.max_seq_length, data, None, self.device)
        which, when = parsed(item, self.buffer_size, self.max_seq_length)
        places = np.arange(self.buffer_size)[which] if isinstance(which, slice) else which.numpy()
        batch = self._read(places)
        return batch if isinstance(when, slice) and when == slice(None) else batch[:, when]

    @exclusive
    def _whole(self, name: str) -> torch.Tensor:
        """One tensor of all places, a few episodes at a time."""
        if name not in self.scheme:
            raise UnknownName("name", f"be one of {', '.join(self.scheme)}", repr(name))
        if name in self._constants:
            return self._constants[name].to(self.device, copy=True)
        about = self.scheme[name]
        lead = (self.buffer_size, self.max_seq_length)
        whole = torch.zeros((*lead, *shape_of(about, self.groups)), dtype=type_of(about), device=self.device)
        for first in range(0, self.episodes_in_buffer, 64):
            places = np.arange(first, min(first + 64, self.episodes_in_buffer))
            whole[first : first + len(places)] = self._rows.read(places)[name].to(self.device)
        return whole

    def __repr__(self) -> str:
        return (
            f"ReplayBuffer. {self.episodes_in_buffer}/{self.buffer_size} episodes. "
            f"Keys:{self.scheme.keys()} Groups:{self.groups.keys()}"
        )

    # ---- saving ----------------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        constants = {
            name: array_of(tensor.flatten().view(torch.uint8)).tobytes().hex()
            for name, tensor in self._constants.items()
        }
        notes = {"layout": self._rows.layout(), "ring": self._rows.ring.notes(), "constants": constants}
        return self._rows.memory, notes

    def _mold(self, notes: dict[str, Any]) -> Memory:
        return self._new_rows(0, notes["layout"]).memory

    def _new_rows(self, seed: int | None, layout: dict[str, Any] | None = None) -> EpisodeRows:
        sizes = (self.buffer_size, self.max_seq_length)
        return EpisodeRows(self.scheme, self.groups, self.preprocess, *sizes, seed, layout)

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        rows = self._new_rows(0, notes["layout"])
        rows.ring.adopt(memory, notes["ring"])
        self._rows = rows
        for name, tensor in self._constants.items():
            saved = np.frombuffer(bytes.fromhex(notes["constants"][name]), np.uint8).copy()
            tensor.copy_(torch.from_numpy(saved).view(tensor.dtype).reshape(tensor.shape))

    def _facts(self) -> dict[str, Any]:
        about = [
            [name, str(shape_of(entry, self.groups)), str(type_of(entry)), name in self._constants]
            for name, entry in self.scheme.items()
        ]
        return {
            "scheme": about,
            "preprocess": sorted(self._made),
            "buffer_size": self.buffer_size,
            "max_seq_length": self.max_seq_length,
        }


@final
class _Made(Mapping[str, torch.Tensor]):
    """Tensors that are made when they are asked for."""

    def __init__(self, buffer: ReplayBuffer, names: list[str]) -> None:
        self._buffer, self._names = buffer, names

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise KeyError(name)
        tensor: torch.Tensor = self._buffer[name]
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
