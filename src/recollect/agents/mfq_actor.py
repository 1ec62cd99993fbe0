"""Agents of MFQ that act: their networks, and what they did last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from recollect.agents.interface import Weights
from recollect.agents.mean_field import MeanField
from recollect.agents.state import load_newer
from recollect.tensors import from_env

__all__ = ["MFQActor"]


@final
class MFQActor:
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
        self._networks, self._mean_field, self._device = networks, mean_field, device
        self._explore, self._temperature = explore, temperature
        self._generator = torch.Generator(device).manual_seed(seed)
        self._version = -1
        self._last = [
            torch.zeros(num_envs, len(q.group), int(q.group.action_space.n), device=device)  # type: ignore[union-attr, arg-type]
            for q in networks
        ]
        """What agents did last, one-hot ``[E, A, n]`` a group; zeros before an episode's first step."""

    @torch.no_grad()
    def act(self, obs: Mapping[str, Any], step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """Actions, and the mean actions that they were chosen by."""
        seen, actions, extras = from_env(obs, self._device), {}, {}
        for index, network in enumerate(self._networks):
            q_network: Any = network
            group = q_network.group
            if self._mean_field.enabled:
                mean = self._mean_field.mean(group, seen, self._last[index])
                (seen[group.name] if group.name else seen)["mean_action"] = mean
                if self._explore:
                    extras[group.key("mean_action")] = mean.cpu().numpy()
            policy = q_network.policy(q_network(seen), seen, self._temperature(step))
            action = policy.sample(self._generator) if self._explore else policy.mode()
            action = action + int(group.action_space.start)
            self._last[index] = self._mean_field.one_hot(group, action)
            actions[group.key("action")] = action.cpu().numpy()
        return actions, extras

    def reset(self, mask: Any) -> None:
        """Nobody did anything yet where episodes begin, ``[E]``."""
        ended = torch.from_numpy(np.asarray(mask)).to(self._device)
        self._last = [last.masked_fill(ended[:, None, None], 0.0) for last in self._last]

    def load(self, weights: Weights) -> None:
        """Take published weights, unless they are the ones it has."""
        self._version = load_newer(self._networks, weights, self._version)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        last = {f"{index}.last_action": value.cpu().clone() for index, value in enumerate(self._last)}
        return {"generator": self._generator.get_state(), **last}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._generator.set_state(state["generator"])
        self._last = [state[f"{index}.last_action"].to(self._device, copy=True) for index in range(len(self._last))]
