"""PyMARL's batch of episodes under way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from relive.compat.checks import at_least
from relive.compat.pymarl.indexing import Some, counted, parsed
from relive.compat.pymarl.scheme import (
    Preprocess,
    Scheme,
    SchemeProblem,
    UnknownName,
    completed,
    device_of,
    shape_of,
    type_of,
)
from relive.compat.pymarl.transforms import OneHot
from relive.compat.pymarl.values import as_array, as_tensor, fits
from relive.errors import OptionError
from relive.messages import brief
from relive.types import Array

__all__ = ["EpisodeBatch", "chosen"]


_ALL = slice(None)


class EpisodeBatch:
    """Episodes padded to one length, as tensors ``[batch_size, max_seq_length, ...]`` by name.

    Args:
        scheme: By name, a dict with ``vshape``, and ``dtype`` (float32), ``group`` and ``episode_const`` where needed.
        groups: How many there are of each group, such as agents.
        data: Tensors to use instead of new ones.
        preprocess: By name of a value, the name of what is made from it and the transforms that make it.
    """

    def __init__(
        self,
        scheme: Mapping[str, Any],
        groups: Mapping[str, int],
        batch_size: int,
        max_seq_length: int,
        data: Any = None,
        preprocess: Preprocess | None = None,
        device: Any = "cpu",
    ) -> None:
        if not isinstance(scheme, Mapping):
            raise SchemeProblem("scheme", "be a dict", brief(scheme))
        self.groups = groups
        self.batch_size = at_least("batch_size", batch_size, 0)
        self.max_seq_length = at_least("max_seq_length", max_seq_length, 0)
        self.preprocess = {} if preprocess is None else preprocess
        self.device = device_of(device)
        self._targets: dict[str, tuple[torch.Tensor, Any, int]] = {}
        self.scheme: Scheme = dict(scheme)
        if data is not None:
            self.data = data
            return
        self.data = self._new_data_sn()
        self._setup_data(self.scheme, groups, batch_size, max_seq_length, self.preprocess)

    def _setup_data(
        self,
        scheme: Mapping[str, Any],
        groups: Mapping[str, int],
        batch_size: int,
        max_seq_length: int,
        preprocess: Preprocess | None = None,
    ) -> None:
        """Make tensors of zeros for a scheme and what is made from its values."""
        for name, about in completed(scheme, groups, {} if preprocess is None else preprocess).items():
            shape, dtype = shape_of(about, groups), type_of(about)
            const = about.get("episode_const", False)
            part = self.data.episode_data if const else self.data.transition_data
            if name == "filled" and name in part:
                continue  # of the scheme that this one extends
            lead = (batch_size,) if const else (batch_size, max_seq_length)
            self.scheme[name] = about
            part[name] = torch.zeros((*lead, *shape), dtype=dtype, device=self.device)

    def extend(self, scheme: Mapping[str, Any], groups: Mapping[str, int] | None = None) -> None:
        """Add values to the scheme, zero everywhere."""
        if groups is not None and not isinstance(groups, Mapping):
            raise SchemeProblem("groups", "be a dict", brief(groups))
        both = {**self.groups, **(groups or {})}
        self._setup_data(scheme, both, self.batch_size, self.max_seq_length)
        self.groups = both

    def _new_data_sn(self) -> SimpleNamespace:
        """Room for tensors."""
        return SimpleNamespace(transition_data={}, episode_data={})

    def _parse_slices(self, items: Any) -> list[Any]:
        """The episodes and times that an index means."""
        return list(parsed(items, self.batch_size, self.max_seq_length))

    def _get_num_items(self, indexing_item: Any, max_size: int) -> int:
        """How many of so many an index means."""
        return counted(indexing_item, max_size)

    def _check_safe_view(self, v: Any, dest: Any) -> None:
        """Refuse a value that cannot be laid over its place without changing what belongs to whom."""
        fits("value", tuple(v.shape), tuple(dest.shape))

    def to(self, device: Any) -> None:
        """Move the tensors to a device."""
        device = device_of(device)
        for part in (self.data.transition_data, self.data.episode_data):
            for name, tensor in part.items():
                part[name] = tensor.to(device)
        self.device = device

    def update(
        self, data: Mapping[str, Any], bs: Any = slice(None), ts: Any = slice(None), mark_filled: bool = True
    ) -> None:
        """Write values, and what is made from them.

        Args:
            bs: Episodes: a number, a slice, a list, an array, a tensor or a mask.
            ts: Times: a number or a slice.
            mark_filled: Whether steps that any value of a step is written to become filled.

        Raises:
            KeyError: If a name is unknown. Nothing is written then.
            ValueError: If a value does not fit. Nothing is written then.
        """
        if (
            type(ts) is int and type(bs) is slice and bs == _ALL and 0 <= ts < self.max_seq_length
        ):  # what runners do at every step
            which: Some = bs
            when: Some = slice(ts, ts + 1)
            lead = (self.batch_size, 1)
        else:
            which, when = parsed((bs, ts), self.batch_size, self.max_seq_length)
            lead = (counted(which, self.batch_size), counted(when, self.max_seq_length))
        if type(data) is not dict and not isinstance(data, Mapping):
            raise OptionError("data", "be a dict of values by name", brief(data))
        writes: list[tuple[Any, Any, Any]] = []
        transitions, constants = self.data.transition_data, self.data.episode_data
        marks = False
        for name, value in data.items():
            if name in transitions:
                marks = mark_filled
                self._plan(name, value, transitions, (which, when), lead, writes)
            elif name in constants:
                self._plan(name, value, constants, (which,), lead[:1], writes)
            else:
                raise UnknownName("name", f"be one of {', '.join([*transitions, *constants])}", repr(name))
        if marks and "filled" in transitions:
            target = self._target("filled", transitions["filled"])
            target[_index_for(target, (which, when))] = 1
        for target, index, ready in writes:
            target[index] = ready

    def _plan(
        self, name: str, value: Any, part: Any, index: Any, lead: tuple[int, ...], writes: list[tuple[Any, Any, Any]]
    ) -> None:
        """Work out what a value, and what is made from it, write where."""
        target = self._target(name, part[name])
        shares = isinstance(target, np.ndarray)
        given: Any = as_array(name, value, target.dtype) if shares else as_tensor(name, value, target)
        place = (*lead, *target.shape[len(lead) :])
        if given.shape != place:
            fits(name, tuple(given.shape), place)
            given = given.reshape(place)
        writes.append((target, _index_for(target, index), given))
        if name not in self.preprocess:
            return
        made, transforms = self.preprocess[name]
        if made not in part:
            return
        target = self._target(made, part[made])
        if shares and len(transforms) == 1 and type(transforms[0]) is OneHot and given.shape[-1] == 1:
            writes.append((target, _index_for(target, index), _one_hot(given, transforms[0].out_dim)))
            return
        tensor = torch.tensor(given) if shares else given
        for transform in transforms:
            tensor = transform.transform(tensor)
        tensor = tensor.reshape(*lead, *target.shape[len(lead) :]).to(part[made].dtype)
        ready = tensor.numpy() if isinstance(target, np.ndarray) else tensor
        writes.append((target, _index_for(target, index), ready))

    def _target(self, name: str, tensor: torch.Tensor) -> Any:
        """An array that shares a tensor's memory, which is faster to write to; or the tensor, if there can be none."""
        known = self._targets.get(name)
        # The same tensor may have got other memory: torch moves it when it is shared with another process.
        if known is not None and known[0] is tensor and known[2] == tensor.data_ptr():
            return known[1]
        try:
            target: Any = tensor.numpy()
        except (TypeError, RuntimeError):  # not on the CPU, or of a dtype that NumPy does not know
            target = tensor
        self._targets[name] = (tensor, target, tensor.data_ptr())
        return target

    def __getitem__(self, item: Any) -> Any:
        """The tensor of a name; a batch of some names; or a batch of some episodes and times.

        Slices and numbers share memory, lists of episodes are copies. A number keeps its axis.
        """
        transitions, constants = self.data.transition_data, self.data.episode_data
        if isinstance(item, str):
            if item in constants:
                return constants[item]
            if item in transitions:
                return transitions[item]
            known = ", ".join([*transitions, *constants])
            raise UnknownName("name", f"be one of {known}", repr(item))
        if isinstance(item, tuple) and item and all(isinstance(name, str) for name in item):
            return self._of_names(item)
        which, when = parsed(item, self.batch_size, self.max_seq_length)
        data = self._new_data_sn()
        data.transition_data = {name: chosen(tensor, which)[:, when] for name, tensor in transitions.items()}
        data.episode_data = {name: chosen(tensor, which) for name, tensor in constants.items()}
        episodes, steps = counted(which, self.batch_size), counted(when, self.max_seq_length)
        return EpisodeBatch(self.scheme, self.groups, episodes, steps, data, self.preprocess, self.device)

    def _of_names(self, names: tuple[str, ...]) -> EpisodeBatch:
        for name in names:
            self[name]  # refuses unknown ones
        data, transitions, constants = self._new_data_sn(), self.data.transition_data, self.data.episode_data
        data.transition_data = {name: transitions[name] for name in names if name in transitions}
        data.episode_data = {name: constants[name] for name in names if name in constants}
        scheme = {name: self.scheme[name] for name in names}
        used = {about["group"] for about in scheme.values() if about.get("group")}
        groups = {group: count for group, count in self.groups.items() if group in used}
        preprocess = {source: made for source, made in self.preprocess.items() if source in names}
        return EpisodeBatch(scheme, groups, self.batch_size, self.max_seq_length, data, preprocess, self.device)

    def max_t_filled(self) -> torch.Tensor:
        """Steps of the longest episode, as an int64 tensor ``[1]``."""
        filled: torch.Tensor = self.data.transition_data["filled"]
        return filled.sum(1).max(0)[0]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_targets": {}}

    def __repr__(self) -> str:
        return (
            f"EpisodeBatch. Batch Size:{self.batch_size} Max_seq_len:{self.max_seq_length} "
            f"Keys:{self.scheme.keys()} Groups:{self.groups.keys()}"
        )


def chosen(tensor: torch.Tensor, which: Some) -> torch.Tensor:
    """Some episodes of a tensor: a view for a slice, otherwise a copy."""
    return tensor[which] if isinstance(which, slice) else tensor.index_select(0, which.to(tensor.device))


def _index_for(target: Any, index: Any) -> Any:
    """An index as arrays or tensors take it: some episodes, and of each of them some times."""
    if type(index[0]) is slice and type(index[-1]) is slice:
        return index
    if all(isinstance(part, torch.Tensor) for part in index) and len(index) == 2:
        index = (index[0][:, None], index[1])
    if isinstance(target, np.ndarray):
        return tuple(part.numpy() if isinstance(part, torch.Tensor) else part for part in index)
    return index


def _one_hot(values: Array, count: int) -> Array:
    """Numbers ``[..., 1]`` as vectors."""
    if values.size and not 0 <= values.min() <= values.max() < count:
        wrong = values[(values < 0) | (values >= count)].flat[0]
        raise OptionError("value", f"be from 0 to {count - 1} to be made one-hot", wrong)
    return _unit_vectors(count).take(values[..., 0].astype(np.intp, copy=False), axis=0)


@cache
def _unit_vectors(count: int) -> Array:
    return np.eye(count, dtype=np.float32)
