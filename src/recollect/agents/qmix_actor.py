"""Agents of QMIX that act: their networks, recurrent states and last actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor, nn

from recollect.agents.interface import Weights
from recollect.agents.q_networks import QNetworks
from recollect.agents.state import load_newer
from recollect.learn.exploration import epsilon_greedy, greedy
from recollect.learn.schedules import linear
from recollect.tensors import from_env

if TYPE_CHECKING:
    from recollect.agents.qmix import QMIXConfig

__all__ = ["QMIXActor"]


@final
class QMIXActor:
    """All agents in some environments.

    Args:
        networks: Of every group; they become this actor's own.
        explore: Whether to explore; else actions are the best there are.
    """

    def __init__(
        self,
        config: QMIXConfig,
        networks: nn.ModuleList,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
    ) -> None:
        self._config, self._networks, self._device, self._explore = config, networks, device, explore
        self._groups: list[QNetworks] = list(networks)  # type: ignore[arg-type]
        self._generator = torch.Generator(device).manual_seed(seed)
        self._version = -1
        self._states = [q.initial_state(num_envs) for q in self._groups]
        self._last = [torch.full((num_envs, q.agents), -1, device=device) for q in self._groups]
        """What agents did last, ``[E, A]`` a group; -1 before an episode's first step."""

    @torch.no_grad()
    def act(self, obs: Mapping[str, Any], step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """Actions; rows hold nothing else."""
        config, actions, seen = self._config, {}, from_env(obs, self._device)
        epsilon = linear(config.epsilon_start, config.epsilon_end, config.epsilon_steps, step)
        for index, network in enumerate(self._groups):
            group = network.group
            fields = seen[group.name] if group.name else seen
            q, self._states[index] = network.step(fields["obs"], self._last[index], self._states[index])
            mask = fields["avail_actions"] if group.avail else None
            action = epsilon_greedy(q, epsilon, self._generator, mask) if self._explore else greedy(q, mask)
            self._last[index] = action
            actions[group.key("action")] = network.to_env(action)
        return actions, {}

    def reset(self, mask: Any) -> None:
        """Reset what is kept of an episode where it ended, ``[E]``."""
        ended = torch.from_numpy(np.asarray(mask)).to(self._device)
        for network, state, last in zip(self._groups, self._states, self._last, strict=True):
            network.reset_state(state, ended)
            last[ended] = -1

    def load(self, weights: Weights) -> None:
        """Take published weights, unless they are the ones it has."""
        self._version = load_newer(self._networks, weights, self._version)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        kept = {"generator": self._generator.get_state()}
        for index, (state, last) in enumerate(zip(self._states, self._last, strict=True)):
            kept |= {f"{index}.state": state.cpu().clone(), f"{index}.last_action": last.cpu().clone()}
        return kept

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._generator.set_state(state["generator"])
        for index in range(len(self._groups)):
            self._states[index] = state[f"{index}.state"].to(self._device, copy=True)
            self._last[index] = state[f"{index}.last_action"].to(self._device, copy=True)
