"""Minibatches of a rollout as learners read them: rows, which are packed sequences where networks are recurrent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from relive.envs.interface import AgentGroup
from relive.learn.agent_networks import Packed
from relive.learn.sequences import pack_segments
from relive.memory import Rollout
from relive.tensors import map_tensors, to_torch

__all__ = ["read_epochs"]

_STATES = ("policy_state", "value_state")


def read_epochs(
    memory: Rollout,
    groups: Sequence[AgentGroup],
    epochs: int,
    *,
    minibatches: int,
    length: int,
    device: torch.device,
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Packed]]]:
    """Rows ``[R, ...]`` of every minibatch of every epoch, and by the names of recurrent states how they are sequences.

    Args:
        minibatches: Parts of an epoch.
        length: Steps of sequences, where rows hold recurrent states.
    """
    passes, repeats = (epochs, 1) if minibatches > 1 else (1, epochs)  # as a whole it is the same in any order
    states = [group.key(name) for group in groups for name in _STATES if group.key(name) in memory]
    if not states:
        for batch in memory.epochs(passes, -(-len(memory) // minibatches)):
            yield from [(to_torch(batch, device), {})] * repeats
        return
    length = min(length, memory.length)
    size = -(-memory.lanes * -(-memory.length // length) // minibatches)
    for batch in memory.epochs(passes, size, length=length, start_fields=tuple(states)):
        segments = pack_segments(batch.starts, batch.mask)
        places = (segments.rows, segments.sequence, segments.carried)
        rows, sequence, carried = (torch.from_numpy(each).to(device) for each in places)
        whole, sizes = to_torch(batch, device), segments.batch_sizes.tolist()
        packed = {}
        for key in states:
            state = _pop(whole, key).index_select(0, sequence)
            packed[key] = Packed(sizes, state * carried.view(-1, *[1] * (state.dim() - 1)))
        for key in ("lengths", "lanes", "serials"):
            del whole[key]
        yield from [(map_tensors(partial(_take, rows), whole), packed)] * repeats


def _take(rows: Tensor, values: Tensor) -> Tensor:
    """Rows ``[R, ...]`` of sequences ``[B, L, ...]``."""
    return values.flatten(0, 1).index_select(0, rows)


def _pop(batch: Any, path: str) -> Tensor:
    """Take out what a batch has at a path such as ``"adversary/policy_state"``."""
    *above, last = path.split("/")
    for part in above:
        batch = batch[part]
    found: Tensor = batch.pop(last)
    return found
