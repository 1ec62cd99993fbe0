"""QMIX's mixer with what it reads: the environment's state, or all that agents observe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.envs.interface import Env
from recollect.learn.encoders import Encoder, EncoderFactory
from recollect.learn.networks import QMixer

__all__ = ["Mixing"]


@final
class Mixing(nn.Module):
    """Q_tot of agents' values and the state.

    Args:
        encoder: Of observations, where the environment has no state.
        options: Of the ``QMixer``.
    """

    def __init__(self, env: Env, encoder: EncoderFactory | None, **options: Any) -> None:
        super().__init__()
        self._groups = [group.name for group in env.groups]
        self._state = env.state_space is not None
        agents = [len(group) for group in env.groups]
        if env.state_space is not None:
            encoders, counts = [Encoder(env.state_space)], [1]
        else:
            encoders, counts = [Encoder(group.obs_space, encoder) for group in env.groups], agents
        self.encoders = nn.ModuleList(encoders)
        features = sum(count * each.features for count, each in zip(counts, encoders, strict=True))
        self.mixer = QMixer(sum(agents), features, **options)

    def forward(self, q: Tensor, batch: Mapping[str, Any], rows: Tensor) -> Tensor:
        """Q_tot ``[S]`` of values ``[S, A]`` at some rows of a batch ``[S]``."""
        parts = [batch[name] if name else batch for name in self._groups]
        every = [batch["state"]] if self._state else [part["obs"] for part in parts]
        features = [encode(each).flatten(1) for encode, each in zip(self.encoders, every, strict=True)]
        state = features[0] if len(features) == 1 else torch.cat(features, dim=1)
        return self.mixer(q, state.index_select(0, rows))
