"""Mixers with what they read: the environment's state or all that agents observe, their values and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from relive.agents.central import CentralInputs
from relive.envs.interface import Env
from relive.learn.encoders import EncoderFactory
from relive.learn.mixers import QMixer, QPlexMixer

__all__ = ["JointValues", "Mixing"]


@final
@dataclass(slots=True)
class JointValues:
    """What agents' actions are worth to each of them, at ``S`` observations."""

    q: Tensor
    """``[S, A]``."""
    rows: Tensor
    """Which observations of the batch, ``[S]``."""
    best_q: Tensor | None = None
    """Of the best actions there are, ``[S, A]``; QPLEX alone reads it."""
    action: Tensor | None = None
    """One-hot, of all agents ``[S, sum of n]``; QPLEX alone reads it."""


@final
class Mixing(nn.Module):
    """Q_tot of agents' values and the state.

    Args:
        encoder: Of observations, where the environment has no state.
        plex: Whether the mixer is QPLEX's.
        hypernet_units: Hidden units of the mixer's networks.
        units: Of QMIX's mixer.
    """

    def __init__(
        self, env: Env, encoder: EncoderFactory | None, *, plex: bool, units: int, hypernet_units: int, **options: Any
    ) -> None:
        super().__init__()
        self.central = CentralInputs(env, encoder)
        agents, state = sum(map(len, env.groups)), self.central.features
        self.mixer: nn.Module
        if plex:
            actions = sum(len(group) * int(group.action_space.n) for group in env.groups)
            self.mixer = QPlexMixer(agents, state, actions, units=hypernet_units, **options)
        else:
            self.mixer = QMixer(agents, state, units=units, hypernet_units=hypernet_units, **options)

    def forward(self, values: JointValues, batch: Mapping[str, Any]) -> Tensor:
        """Q_tot ``[S]``."""
        state = self.central(batch).index_select(0, values.rows)
        if values.best_q is None:
            return self.mixer(values.q, state)
        return self.mixer(values.q, values.best_q, values.action, state)
