"""An algorithm of one's own, in one file: REINFORCE with a baseline (Williams 1992), for one agent or many.

    cd examples && relive train --import own_algorithm reinforce gymnasium:CartPole-v1 --steps 100000
    relive eval RUN --import own_algorithm

A run remembers the module; `relive train --resume RUN --trust` imports it again.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import relive as rl
from relive.agents.interface import Schedule, Weights
from relive.agents.registry import register
from relive.agents.state import Networks


@register("reinforce")
@dataclass(frozen=True)
class ReinforceConfig:
    """REINFORCE: raises the chance of actions that were followed by more than the baseline expected."""

    gamma: float = 0.99
    """Discount of a step."""
    rollout: int = 16
    """Steps of every environment for an update."""
    lr: float = 3e-3
    """Learning rate."""
    entropy: float = 0.01
    """Weight of the policy's entropy."""
    hidden: int = 64
    """Units of the hidden layers."""

    def schedule(self, num_envs: int) -> Schedule:
        """An update after every rollout."""
        return Schedule(every=self.rollout * num_envs, first=self.rollout * num_envs)

    def memory(self, env: Any, *, lanes: int, seed: int, storage: Any = None) -> rl.Rollout:
        """What the environment gives, and every agent's value."""
        (group,) = env.groups
        return rl.Rollout(
            env.schema.with_fields(value=rl.Field((len(group),))), self.rollout, lanes, storage=storage, seed=seed
        )

    def learner(self, env: Any, *, device: Any = "cpu", seed: int = 0) -> Reinforce:
        """A learner of these settings."""
        return Reinforce(self, env, device, seed)


class ActorCritic(nn.Module):
    """A policy and a value for every agent's observation."""

    def __init__(self, inputs: int, actions: int, hidden: int) -> None:
        super().__init__()
        self.policy, self.value = (
            nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)) for outputs in (actions, 1)
        )

    def forward(self, obs: Tensor) -> tuple[torch.distributions.Categorical, Tensor]:
        """The distribution of actions, and the value of what is seen."""
        flat = obs.flatten(2).float()
        return torch.distributions.Categorical(logits=self.policy(flat)), self.value(flat)[..., 0]


class Reinforce:
    """What learns."""

    def __init__(self, config: ReinforceConfig, env: Any, device: Any, seed: int) -> None:
        (group,) = env.groups
        inputs = int(np.prod(group.obs_space.shape))
        self.config, self.updates, self.networks = config, 0, Networks(device, seed)
        with self.networks.seeded():
            self.network = ActorCritic(inputs, int(group.action_space.n), config.hidden)
        self.networks.add("network", self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), config.lr)
        self.networks.optimizers["network"] = self.optimizer

    def learn(self, memory: rl.Rollout, obs: Mapping[str, Any]) -> dict[str, float]:
        """One step from a whole rollout."""
        with torch.no_grad():
            ahead = rl.to_torch(memory.bootstrap(**obs), self.networks.device)
            memory.finish(self.network(ahead.obs)[1].cpu(), gamma=self.config.gamma, lam=1.0)
        (batch,) = (rl.to_torch(batch, self.networks.device) for batch in memory.epochs(1, size=len(memory)))
        memory.clear()
        policy, value = self.network(batch.obs)
        advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
        entropy = policy.entropy().mean()
        policy_loss = -(policy.log_prob(batch.action) * advantage).mean()
        value_loss = (batch.returns - value).square().mean()
        self.optimizer.zero_grad()
        (policy_loss + 0.5 * value_loss - self.config.entropy * entropy).backward()
        self.optimizer.step()
        self.updates += 1
        return {"policy_loss": policy_loss.item(), "value_loss": value_loss.item(), "entropy": entropy.item()}

    def weights(self) -> Weights:
        """What actors need."""
        return Weights(self.updates, self.network.state_dict())

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> ReinforceActor:
        """Agents that act with the weights of now."""
        return ReinforceActor(copy.deepcopy(self.network), self.networks.device, explore, seed)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from."""
        return self.networks.state_dict() | {"updates": torch.tensor(self.updates)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.networks.load_state_dict(state)
        self.updates = int(state["updates"])


class ReinforceActor:
    """What acts: by chance, or the likeliest action."""

    def __init__(self, network: ActorCritic, device: Any, explore: bool, seed: int) -> None:
        self.network, self.device, self.explore = network, device, explore
        self.random = torch.Generator(device).manual_seed(seed)

    @torch.no_grad()
    def act(self, obs: Mapping[str, Any], step: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
        """Actions ``[E, A]``, and the values that rows hold beside them."""
        policy, value = self.network(torch.as_tensor(np.asarray(obs["obs"]), device=self.device))
        drawn = torch.multinomial(policy.probs.flatten(0, 1), 1, generator=self.random).view(value.shape)
        action = drawn if self.explore else policy.probs.argmax(-1)
        return {"action": action.cpu().numpy()}, {"value": value.cpu().numpy()}

    def reset(self, mask: Any) -> None:
        """Nothing is remembered from step to step."""

    def load(self, weights: Weights) -> None:
        """Take weights that the learner published."""
        self.network.load_state_dict(weights.tensors)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything to go on from but the weights."""
        return {"random": self.random.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.random.set_state(state["random"])
