"""QMIX's mixer with what it reads: the environment's state, or all that agents observe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from torch import Tensor, nn

from recollect.agents.central import CentralInputs
from recollect.envs.interface import Env
from recollect.learn.encoders import EncoderFactory
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
        self.central = CentralInputs(env, encoder)
        self.mixer = QMixer(sum(map(len, env.groups)), self.central.features, **options)

    def forward(self, q: Tensor, batch: Mapping[str, Any], rows: Tensor) -> Tensor:
        """Q_tot ``[S]`` of values ``[S, A]`` at some rows of a batch ``[S]``."""
        return self.mixer(q, self.central(batch).index_select(0, rows))
