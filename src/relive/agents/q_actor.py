"""One agent that acts by Q-values: its network, its exploration, the frames it has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import torch

from relive.agents.interface import Weights
from relive.agents.one_agent import Frames
from relive.agents.state import NetworkActor
from relive.learn.noisy import draw_noise, without_noise
from relive.learn.q_network import QNetwork
from relive.tensors import from_env
from relive.types import Array, Arrays

__all__ = ["QActor"]


@final
class QActor(NetworkActor):
    """An agent in each of some environments.

    Args:
        network: Becomes this actor's own.
        explore: Whether some actions are random, and noise is drawn at every step; else actions are the best.
        epsilon: Share of random actions after some steps.
        frame_stack: Frames that the network sees at once.
    """

    def __init__(
        self,
        network: QNetwork,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
        epsilon: Callable[[int], float],
        frame_stack: int = 1,
    ) -> None:
        self._frames = Frames(frame_stack, num_envs)
        super().__init__(network, device, explore=explore, seed=seed, kept=[self._frames])
        self._network, self._num_envs = network, num_envs
        self._epsilon, self._plain = epsilon, network.plain

    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions ``[E]``; rows hold nothing besides."""
        seen = self._frames(obs)
        mask = seen.get("avail_actions")
        explore = self._explorers(step)
        if explore.all():
            action = self._random(mask)
        else:
            action = _best(self._values(seen), mask)
            if explore.any():
                action = np.where(explore, self._random(mask), action)
        return {"action": action + self._network.start}, {}

    def _explorers(self, step: int) -> Array:
        """Where a random action is taken, ``[E]``."""
        if not self._explore:
            return np.zeros(self._num_envs, bool)
        return self._chance(self._num_envs) < self._epsilon(step)

    def _random(self, mask: Array | None) -> Array:
        return _best(self._chance(self._num_envs, self._network.actions), mask)

    def _values(self, seen: Mapping[str, Any]) -> Array:
        """Q ``[E, n]``."""
        if self._plain is not None:
            return self._plain.of_array(seen["obs"])
        if self._explore:
            draw_noise(self._network, self._generator)
        with torch.no_grad():
            q: Array = self._network(from_env(seen, self._device)["obs"]).cpu().numpy()
        return q

    def _chance(self, *shape: int) -> Array:
        return torch.rand(shape, generator=self._generator, device=self._device).cpu().numpy()

    def reset(self, mask: Array) -> None:
        """Reset what is kept of an episode where it ended, ``[E]``."""
        self._frames.reset(mask)

    def load(self, weights: Weights) -> None:
        """Take published weights, unless they are the ones it has."""
        if weights.version != self._version:
            super().load(weights)
            without_noise(self._network)


def _best(values: Array, mask: Array | None) -> Array:
    """The action of the highest value among those that may be taken, ``[E]``."""
    return np.asarray((values if mask is None else np.where(mask, values, -np.inf)).argmax(axis=1))
