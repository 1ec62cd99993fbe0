"""PPO: proximal policy optimisation (Schulman et al. 2017) of one agent.

Without clipping A2C (Mnih et al. 2016), and without a critic policy gradients (Williams 1992). See
docs/algorithms/ppo.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm
from relive.agents.checks import check
from relive.agents.interface import Schedule
from relive.agents.policy_modules import LikeliestAction
from relive.agents.rollout_batches import read_epochs
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import PPOSettings, network_options, recurrent_size
from relive.agents.solo_policy import ActorCritic, SoloActor, row_fields
from relive.agents.state import NetworkLearner, Networks, mean_metrics
from relive.envs.interface import Env
from relive.learn.agent_networks import Packed
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES, clipped_surrogate, clipped_value
from relive.learn.running_stats import RunningMeanStd
from relive.learn.schedules import linear
from relive.memory import Rollout, Storage
from relive.tensors import to_torch
from relive.types import Arrays

__all__ = ["PPO", "PPOConfig"]

_SUMMARIES = {
    "ppo": "PPO: clipped surrogate objective, several epochs per rollout.",
    "a2c": "A2C: advantage actor-critic, one gradient step per rollout.",
    "pg": "PG: policy gradient without a critic (REINFORCE).",
}


@final
@dataclass(frozen=True)
class PPOConfig(PPOSettings):
    """Settings of PPO, A2C and PG."""

    default_num_envs: ClassVar[int] = 8
    single_agent: ClassVar[bool] = True

    entropy: float = 0.0
    critic: bool = True
    """Learn a value function; without one, policy gradients use plain returns (REINFORCE, pg)."""
    value_weight: float = 0.5
    """Coefficient of the value loss."""
    lr: float = 1e-3
    """Learning rate."""
    eps: float = 1e-5
    """Adam's epsilon."""
    max_grad_norm: float = 0.5
    td_loss: Any = "mse"
    """Loss of values: mse, huber, or package.module:function(td_error)."""
    normalize_reward: bool = False
    """Divide rewards by their running root mean square."""
    shared_encoder: bool = True
    """One encoder for policy and critic, where it has parameters (images)."""
    activation: Literal["relu", "leaky_relu", "tanh", "elu", "gelu", "silu"] = "tanh"
    init: Literal["uniform", "xavier", "orthogonal"] = "orthogonal"

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """What it is called by: ppo, a2c or pg."""
        if not self.critic:
            return "pg"
        return "ppo" if self.clip else "a2c"

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        return _SUMMARIES[self.name]

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """Settings of published code."""
        if self.name != "ppo":
            return {}
        continuous = {"rollout": 2048, "epochs": 10, "minibatches": 32, "lr": 3e-4}
        atari = {"clip": 0.1, "entropy": 0.01, "lr": 2.5e-4, "hidden": (512,), "encoder": "convolutions"}
        return {
            "cleanrl": {"clip": 0.2, "value_clip": 0.2, "entropy": 0.01, "lr": 2.5e-4},
            "mujoco": {**continuous, "normalize_obs": True, "normalize_reward": True},
            "atari": {**atari, "activation": "relu", "value_clip": 0.1},
        }

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        more: SearchSpace = {"gamma": Range(0.97, 0.999), "gae_lambda": Range(0.8, 1.0)}
        more |= {"entropy": Range(1e-4, 0.05, log=True), "epochs": Choice((4, 10)), "rollout": Choice((32, 128, 512))}
        return {"lr": Range(1e-4, 3e-3, log=True), **more, "hidden": Choice(((64, 64), (128, 128)))}

    def schedule(self, num_envs: int) -> Schedule:
        """An update after every rollout."""
        return Schedule(self.rollout * num_envs, first=self.rollout * num_envs)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Rollout:
        """A rollout: what the environment gives, and what the policy said and expected of it."""
        fields = row_fields(env.groups[0], recurrent_size(self), critic=self.critic)
        return Rollout(env.schema.with_fields(**fields), self.rollout, lanes, storage=storage, seed=seed)

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> PPO:
        """A learner of these settings."""
        return PPO(self, env, device=device, seed=seed)


@final
class PPO(NetworkLearner):
    """A policy and its critic.

    Args:
        env: Its agent.
    """

    def __init__(self, config: PPOConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config = config
        self.groups = env.groups
        self._value_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how = network_options(config, "recurrent", "rnn", "shared_encoder", "critic", "value_norm", "log_std")
        self.networks = Networks(device, seed)
        with self.networks.seeded() as generator:
            self.network = ActorCritic(env.groups[0], generator=generator, **how)
        self.obs_norm = ObsNorm(env, enabled=config.normalize_obs)
        self.reward_rms = RunningMeanStd() if config.normalize_reward else None
        self.networks.add("agent", nn.ModuleDict({"network": self.network, "obs": self.obs_norm}))
        if self.reward_rms is not None:
            self.networks.add("reward", self.reward_rms)
        self.trained = self.networks.optimize("agent", self.network, None, config.lr, config.eps, clip_whole=True)
        self.acting = nn.ModuleList([self.network, self.obs_norm])

    def learn(self, memory: Rollout, obs: Arrays) -> dict[str, float]:
        """One update from a rollout, which is cleared."""
        config, steps, reward = self.config, len(memory), self._reward(memory)
        memory.finish(
            self._next_values(memory, obs),
            gamma=config.gamma,
            lam=config.gae_lambda if config.critic else 1.0,
            bootstrap_on_truncation=config.bootstrap_on_truncation,
            reward=lambda *_: reward,
            normalize=config.normalize_advantage,
        )
        if self.network.norm is not None and self.network.critic is not None:
            returns = torch.as_tensor(memory["returns"], device=self.networks.device)
            self.network.norm.update(returns, None, self.network.critic)
        how: dict[str, Any] = {"minibatches": config.minibatches, "length": config.chunk_length}
        batches = read_epochs(memory, self.groups, config.epochs, device=self.networks.device, **how)
        found = [self.update(rows, packed) for rows, packed in batches]
        if config.normalize_obs:  # only now: the rollout was of a policy that read the old ones
            self.obs_norm.update(to_torch(memory.rows(), self.networks.device))
        memory.clear()
        self.networks.count_update(steps)
        return {**mean_metrics(found), "samples": steps * config.epochs}

    def update(self, rows: Mapping[str, Any], packed: Mapping[str, Packed]) -> dict[str, Tensor]:
        """One step of the networks from rows ``[R, ...]``, which are sequences if networks are recurrent."""
        config = self.config
        loss, metrics = self.loss(self.obs_norm(rows), packed)
        scale = linear(1.0, config.lr_end, config.lr_steps, self.networks.steps)
        norm = self.trained.step(loss, max_grad_norm=config.max_grad_norm, lr_scale=scale)
        return metrics | {"grad_norm": norm}

    def loss(self, rows: Mapping[str, Any], packed: Mapping[str, Packed]) -> tuple[Tensor, dict[str, Tensor]]:
        """-E[min(r A, clip(r) A)] + c1 L(G - V) - c2 H with r = pi(a|s) / pi_old(a|s): equation 9; and metrics."""
        config, advantage = self.config, rows["advantage"]
        outcome = self.network(rows, packed)
        log_prob = outcome.distribution.log_prob(self.network.head.stored(rows))
        log_ratio = log_prob - rows["log_prob"]
        ratio = log_ratio.exp()
        gain = clipped_surrogate(ratio, advantage, config.clip) if config.clip else log_prob * advantage
        policy_loss, entropy = -gain.mean(), outcome.distribution.entropy().mean()
        loss = policy_loss - config.entropy * entropy
        with torch.no_grad():
            kl = (ratio - 1 - log_ratio).mean()  # John Schulman's estimate, which is never below zero
            metrics = {"policy_loss": policy_loss.detach(), "entropy": entropy.detach(), "approx_kl": kl}
            if config.clip:
                metrics["clip_fraction"] = ((ratio - 1).abs() > config.clip).float().mean()
        if outcome.value is not None:
            value_loss = self.value_loss(outcome.value, rows)
            loss, metrics["value_loss"] = loss + config.value_weight * value_loss, value_loss.detach()
        return loss, metrics

    def value_loss(self, value: Tensor, rows: Mapping[str, Any]) -> Tensor:
        """The distance of V from the returns, both normalised; clipped around the rollout's values if asked."""
        norm: Any = self.network.norm
        returns = norm.normalize(rows["returns"])
        if not self.config.value_clip:
            return self._value_loss(returns - value).mean()
        old_value = norm.outputs_before(rows["value"])
        return clipped_value(value, old_value, returns, self.config.value_clip, self._value_loss).mean()

    @torch.no_grad()
    def _next_values(self, memory: Rollout, obs: Mapping[str, Any]) -> Tensor:
        """Values of what was seen after the last steps."""
        last_rows = self.obs_norm(to_torch(memory.bootstrap(**obs), self.networks.device))
        packed = dict[str, Packed]()
        if self.network.recurrent:
            before = self.obs_norm(to_torch(memory.before_bootstrap(), self.networks.device))
            given = {name: Packed([len(before[name])], before[name]) for name in self.network.recurrent}
            states = self.network(before, given).states  # which rows hold as they were before their steps
            packed = {name: Packed([len(state)], state) for name, state in states.items()}
        return self.network.values(self.network(last_rows, packed)).cpu()

    def _reward(self, memory: Rollout) -> Any:
        """What is learned from, ``[n]``."""
        reward = memory["reward"]
        if self.reward_rms is None:
            return reward
        given = torch.as_tensor(reward, device=self.networks.device)
        self.reward_rms.update(given)
        return self.reward_rms.scale(given).cpu().numpy()

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> SoloActor:
        """An agent that acts with the weights of now."""
        network, obs_norm = copy.deepcopy(self.network), copy.deepcopy(self.obs_norm)
        return SoloActor(network, obs_norm, num_envs, self.networks.device, explore=explore, seed=seed)

    def policy_module(self) -> LikeliestAction:
        """The policy alone, as a function of tensors; a copy."""
        return LikeliestAction(copy.deepcopy(self.network), copy.deepcopy(self.obs_norm))

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agent."""
        return {self.network.group.name: self.network}
