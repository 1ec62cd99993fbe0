"""One agent that acts by Q-values: its network, its exploration, the frames it has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from recollect.agents.interface import Weights
from recollect.agents.state import load_weights
from recollect.learn.exploration import epsilon_greedy, greedy
from recollect.learn.noisy import draw_noise, without_noise
from recollect.learn.q_network import QNetwork
from recollect.memory import FrameStack
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
        self._frames = FrameStack(frame_stack, num_envs) if frame_stack > 1 else None
        self._begun = np.ones(num_envs, bool)
        """Where the next observation is the first of an episode."""
        self._version = -1

    @torch.no_grad()
    def act(self, obs: Mapping[str, Any], step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """Actions ``[E]``; rows hold nothing besides."""
        if self._frames is not None:
            obs = {**obs, "obs": self._frames(obs["obs"], self._begun)}
            self._begun[:] = False
        seen = from_env(obs, self._device)
        mask = seen.get("avail_actions")
        if self._explore:
            draw_noise(self._network, self._generator)
            action = epsilon_greedy(self._network(seen["obs"]), self._epsilon(step), self._generator, mask)
        else:
            action = greedy(self._network(seen["obs"]), mask)
        return {"action": (action + self._network.start).cpu().numpy()}, {}

    def reset(self, mask: Any) -> None:
        """Begin anew where episodes ended, ``[E]``."""
        self._begun |= np.asarray(mask, bool)

    def load(self, weights: Weights) -> None:
        """Take published weights, unless they are the ones it has."""
        if weights.version != self._version:
            load_weights(self._network, weights)
            without_noise(self._network)
            self._version = weights.version

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        kept = {"generator": self._generator.get_state(), "begun": torch.from_numpy(self._begun.copy())}
        frames = None if self._frames is None else self._frames.kept
        return kept if frames is None else kept | {"frames": torch.from_numpy(frames)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._generator.set_state(state["generator"])
        self._begun = state["begun"].numpy().copy()
        if self._frames is not None:
            self._frames.kept = state["frames"].numpy() if "frames" in state else None
