"""One agent that acts by Q-values: its network, its exploration, the frames it has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from recollect.agents.interface import Weights
from recollect.agents.one_agent import Frames
from recollect.agents.state import load_weights
from recollect.learn.exploration import epsilon_greedy, greedy
from recollect.learn.noisy import draw_noise, without_noise
from recollect.learn.q_network import QNetwork
from recollect.tensors import from_env

__all__ = ["QActor"]


@final
class QActor:
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
        self._network, self._device, self._explore, self._epsilon = network, device, explore, epsilon
        self._generator = torch.Generator(device).manual_seed(seed)
        self._frames = Frames(frame_stack, num_envs)
        self._version = -1

    @torch.no_grad()
    def act(self, obs: Mapping[str, Any], step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """Actions ``[E]``; rows hold nothing besides."""
        seen = from_env(self._frames(obs), self._device)
        mask = seen.get("avail_actions")
        if self._explore:
            draw_noise(self._network, self._generator)
            action = epsilon_greedy(self._network(seen["obs"]), self._epsilon(step), self._generator, mask)
        else:
            action = greedy(self._network(seen["obs"]), mask)
        return {"action": (action + self._network.start).cpu().numpy()}, {}

    def reset(self, mask: Any) -> None:
        """Begin anew where episodes ended, ``[E]``."""
        self._frames.reset(mask)

    def load(self, weights: Weights) -> None:
        """Take published weights, unless they are the ones it has."""
        if weights.version != self._version:
            load_weights(self._network, weights)
            without_noise(self._network)
            self._version = weights.version

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        return {"generator": self._generator.get_state(), **self._frames.state_dict()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._generator.set_state(state["generator"])
        self._frames.load_state_dict(state)
