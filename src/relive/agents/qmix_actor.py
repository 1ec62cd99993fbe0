"""Agents of QMIX that act: their networks, recurrent states and last actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch
from torch import nn

from relive.agents.q_networks import QNetworks
from relive.agents.state import NetworkActor
from relive.learn.exploration import epsilon_greedy, greedy
from relive.learn.schedules import linear
from relive.tensors import from_env
from relive.types import Array, Arrays

if TYPE_CHECKING:
    from relive.agents.qmix import QMIXConfig

__all__ = ["QMIXActor"]


@final
class QMIXActor(NetworkActor):
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
        super().__init__(networks, device, explore=explore, seed=seed)
        self._config = config
        self._groups: list[QNetworks] = list(networks)  # type: ignore[arg-type]
        for index, q in enumerate(self._groups):
            self._states[f"{index}.state"] = q.initial_state(num_envs)
            self._states[f"{index}.last_action"] = torch.full((num_envs, q.agents), -1, device=device)

    @torch.no_grad()
    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions; rows hold nothing else."""
        config, actions, seen = self._config, {}, from_env(obs, self._device)
        epsilon = linear(config.epsilon_start, config.epsilon_end, config.epsilon_steps, step)
        for index, network in enumerate(self._groups):
            group = network.group
            fields = seen[group.name] if group.name else seen
            state, last = f"{index}.state", f"{index}.last_action"
            q, self._states[state] = network.step(fields["obs"], self._states[last], self._states[state])
            mask = fields["avail_actions"] if group.avail else None
            action = epsilon_greedy(q, epsilon, self._generator, mask) if self._explore else greedy(q, mask)
            self._states[last] = action
            actions[group.key("action")] = network.to_env(action)
        return actions, {}

    def reset(self, mask: Array) -> None:
        """Reset what is kept of an episode where it ended, ``[E]``."""
        ended = self._ended(mask)
        for index, network in enumerate(self._groups):
            network.reset_state(self._states[f"{index}.state"], ended)
            self._states[f"{index}.last_action"][ended] = -1
