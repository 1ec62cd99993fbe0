"""One agent's recurrent Q-network, and the actor that acts by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from relive.agents.one_agent import Frames
from relive.agents.state import NetworkActor
from relive.errors import OptionError
from relive.learn.agent_networks import RNN, AgentNetworks, Packed
from relive.learn.encoders import Encoder, EncoderFactory
from relive.learn.exploration import epsilon_greedy, greedy
from relive.tensors import from_env
from relive.types import Array, Arrays

__all__ = ["RecurrentQ", "RecurrentQActor"]


@final
class RecurrentQ(nn.Module):
    """Q of every action, by what was seen so far: an encoder, a layer, a recurrent layer and a layer.

    Args:
        units: Of the layer before the recurrent one, and of that.
        rnn: The recurrent layer.
    """

    def __init__(
        self,
        obs_space: Space[Any],
        action_space: Space[Any],
        *,
        units: int,
        rnn: RNN = "gru",
        encoder: EncoderFactory | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete):
            remedy = "PPO learns continuous actions by a recurrent network."
            raise OptionError("action space", "be Discrete", action_space, remedy)
        self.actions, self.start = int(action_space.n), int(action_space.start)
        self.encoder = Encoder(obs_space, encoder)
        how: dict[str, Any] = {"hidden": (units,), "recurrent": True, "rnn": rnn, "generator": generator}
        self.network = AgentNetworks(1, self.encoder.features, self.actions, **how)
        self.state_size = self.network.state_size

    def forward(self, obs: Any, packed: Packed) -> tuple[Tensor, Tensor]:
        """Q ``[R, n]`` of packed sequences of observations, and their last states ``[S, size]``."""
        q, state = self.network(self.encoder(obs)[:, None], Packed(packed.batch_sizes, packed.state[:, None]))
        return q[:, 0], state[:, 0]


@final
class RecurrentQActor(NetworkActor):
    """An agent in each of some environments.

    Args:
        network: Becomes this actor's own.
        explore: Whether some actions are random; else they are the best.
        epsilon: Share of random actions after some steps.
        frame_stack: Frames that the network sees at once.
        stored_state: Whether rows hold the state before their step.
    """

    def __init__(
        self,
        network: RecurrentQ,
        num_envs: int,
        device: torch.device,
        *,
        explore: bool,
        seed: int,
        epsilon: Callable[[int], float],
        frame_stack: int,
        stored_state: bool,
    ) -> None:
        self._frames = Frames(frame_stack, num_envs)
        super().__init__(network, device, explore=explore, seed=seed, kept=[self._frames])
        self._network, self._epsilon = network, epsilon
        self._stored = stored_state and explore
        self._states["state"] = torch.zeros(num_envs, network.state_size, device=device)

    @torch.no_grad()
    def act(self, obs: Arrays, step: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
        """Actions ``[E]``, and the states that they came from."""
        seen, before = from_env(self._frames(obs), self._device), self._states["state"]
        q, self._states["state"] = self._network(seen["obs"], Packed([len(before)], before))
        mask = seen.get("avail_actions")
        action = epsilon_greedy(q, self._epsilon(step), self._generator, mask) if self._explore else greedy(q, mask)
        extras = {"q_state": before.cpu().numpy()} if self._stored else {}
        return {"action": (action + self._network.start).cpu().numpy()}, extras

    def reset(self, mask: Array) -> None:
        """Reset what is kept of an episode where it ended, ``[E]``."""
        super().reset(mask)
        self._frames.reset(mask)
