"""Agents of MADDPG that act: their policies, their noise, and which of an ensemble plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from torch import Tensor, nn

from relive.agents.state import NetworkActor, below
from relive.agents.transitions import GroupReader
from relive.learn.exploration import GaussianNoise, Noise, OrnsteinUhlenbeck
from relive.learn.policies import Policy
from relive.learn.schedules import linear
from relive.tensors import from_env
from relive.types import Array, Arrays

if TYPE_CHECKING:
    from relive.agents.maddpg import MADDPGConfig

__all__ = ["MADDPGActor"]


@final
class MADDPGActor(NetworkActor):
    """All agents in some environments.

    Args:
        networks: The policy and the reader of every group, which become this actor's own.
        explore: Whether to explore; else actions are the policies' modes, and ensembles draw always the same.
    """

    def __init__(
        self,
        config: MADDPGConfig,
        networks: nn.ModuleList,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
    ) -> None:
        super().__init__(networks, device, explore=explore, seed=seed)
        self._config = config
        self._groups: list[tuple[Policy, GroupReader]] = [tuple(pair) for pair in networks]  # type: ignore[arg-type, misc]
        kind = GaussianNoise if config.noise == "gaussian" else OrnsteinUhlenbeck
        self._noise: list[Noise] = [kind() for _ in self._groups]
        self._ensemble_index = [
            torch.randint(config.ensemble, (len(reader.spec), num_envs), generator=self._generator, device=device)
            for _, reader in self._groups
        ]
        """Which of its ensemble plays each agent in each environment, ``[A, E]`` a group."""

    @torch.no_grad()
    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions, and which of an ensemble chose them."""
        seen = from_env(obs, self._device)
        actions, extras = {}, {}
        for index, (policy, reader) in enumerate(self._groups):
            spec, which = reader.spec, self._ensemble_index[index]
            fields = seen[spec.name] if spec.name else seen
            _, action_mask = reader.masks(fields)
            outputs = policy(reader.obs(fields["obs"]), which)
            action = reader.head.distribution(outputs, action_mask).mode()
            if self._explore:
                action = self._explored(index, outputs, action, action_mask, step)
            actions[spec.key("action")] = np.ascontiguousarray(np.swapaxes(reader.head.to_env(action), 0, 1))
            if self._config.ensemble > 1:
                extras[spec.key("ensemble_index")] = which.T.cpu().numpy().astype(np.uint8)
        return actions, extras

    def _explored(self, index: int, outputs: Tensor, mode: Tensor, action_mask: Tensor | None, step: int) -> Tensor:
        config, head, generator = self._config, self._groups[index][1].head, self._generator
        if not head.stochastic:
            scale = linear(config.noise_start, config.noise_end, config.noise_steps, step)
            return (mode + self._noise[index](mode, scale, generator)).clamp_(-1, 1)
        action: Tensor = head.distribution(outputs, action_mask).sample(generator)
        if config.epsilon:
            uniform = head.distribution(torch.zeros_like(outputs), action_mask).sample(generator)
            chance = torch.rand(action.shape[:2], generator=generator, device=self._device)
            action = torch.where((chance < config.epsilon)[..., None], uniform, action)
        return action

    def reset(self, mask: Array) -> None:
        """New noise, and others of the ensembles, where episodes ended ``[E]``."""
        if not self._explore:
            return
        ended = self._ended(mask)
        for noise in self._noise:
            noise.reset(ended)
        if self._config.ensemble > 1:
            for which in self._ensemble_index:
                fresh = (len(which), int(ended.sum()))
                which[:, ended] = torch.randint(
                    self._config.ensemble, fresh, generator=self._generator, device=self._device
                )

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        kept = super().state_dict()
        for index, (which, noise) in enumerate(zip(self._ensemble_index, self._noise, strict=True)):
            kept[f"{index}.ensemble_index"] = which.cpu().clone()
            kept |= {f"{index}.noise.{name}": value.cpu() for name, value in noise.state_dict().items()}
        return kept

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        for index, noise in enumerate(self._noise):
            self._ensemble_index[index] = state[f"{index}.ensemble_index"].to(self._device, copy=True)
            kept = below(state, f"{index}.noise.")
            noise.load_state_dict({name: value.to(self._device) for name, value in kept.items()})
