"""Agents of MFQ that act: their networks, and what they did last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import nn

from relive.agents.mean_field import MeanField
from relive.agents.state import NetworkActor
from relive.tensors import from_env
from relive.types import Array, Arrays

__all__ = ["MFQActor"]


@final
class MFQActor(NetworkActor):
    """All agents in some environments.

    Args:
        networks: Of every group; they become this actor's own.
        explore: Whether to act by the Boltzmann policy, and give rows the mean actions; else actions are the best.
        temperature: Of the policy, after some steps.
    """

    def __init__(
        self,
        networks: nn.ModuleList,
        mean_field: MeanField,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
        temperature: Callable[[int], float],
    ) -> None:
        super().__init__(networks, device, explore=explore, seed=seed)
        self._networks, self._mean_field, self._temperature = networks, mean_field, temperature
        for index, network in enumerate(networks):  # what agents did last, one-hot ``[E, A, n]``
            group: Any = network.group
            shape = (num_envs, len(group), int(group.action_space.n))
            self._states[f"{index}.last_action"] = torch.zeros(shape, device=device)

    @torch.no_grad()
    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions, and the mean actions that they were chosen by."""
        seen, actions, extras = from_env(obs, self._device), {}, {}
        for index, network in enumerate(self._networks):
            q_network: Any = network
            group = q_network.group
            if self._mean_field.enabled:
                mean = self._mean_field.mean(group, seen, self._states[f"{index}.last_action"])
                (seen[group.name] if group.name else seen)["mean_action"] = mean
                if self._explore:
                    extras[group.key("mean_action")] = mean.cpu().numpy()
            policy = q_network.policy(q_network(seen), seen, self._temperature(step))
            action = policy.sample(self._generator) if self._explore else policy.mode()
            action = action + int(group.action_space.start)
            self._states[f"{index}.last_action"] = self._mean_field.one_hot(group, action)
            actions[group.key("action")] = action.cpu().numpy()
        return actions, extras
