"""TD3: twin delayed deterministic policy gradients (Fujimoto et al. 2018) of one agent.

With one critic, no delay and no smoothing DDPG (Lillicrap et al. 2016). See docs/algorithms/td3.md.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from relive.agents.one_agent import ActorCriticSettings, TransitionLearner
from relive.agents.policy_modules import TanhAction
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import network_options
from relive.agents.td3_actor import DeterministicActor, TanhPolicy
from relive.envs.interface import Env
from relive.learn.critics import Critics
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES
from relive.learn.optimizers import frozen
from relive.learn.polyak import target_of
from relive.memory import Batch
from relive.tensors import TensorBatch

__all__ = ["TD3", "TD3Config"]


@final
@dataclass(frozen=True)
class TD3Config(ActorCriticSettings):
    """Settings of TD3 and DDPG."""

    twin_q: bool = True
    """Clipped double Q-learning: targets take the lower of two critics."""
    policy_delay: int = 2
    """Critic updates per update of the policy and the targets."""
    target_policy_noise: float = 0.2
    """Target policy smoothing: standard deviation of the noise on target actions, where -1 to 1 spans them; 0: none."""
    target_noise_clip: float = 0.5
    """Clip range of that noise."""
    noise: Literal["gaussian", "ou"] = "gaussian"
    """Exploration noise: gaussian, or ou (Ornstein-Uhlenbeck)."""
    noise_scale: float = 0.1
    """Standard deviation of the exploration noise."""

    @property
    def name(self) -> str:
        """What it is called by: td3 or ddpg."""
        return "td3" if self.twin_q else "ddpg"

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        if self.twin_q:
            return "TD3: twin delayed deterministic policy gradient."
        return "DDPG: deep deterministic policy gradient."

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        rates = dict.fromkeys(("actor_lr", "critic_lr"), Range(1e-4, 3e-3, log=True))
        more: SearchSpace = {"gamma": Range(0.97, 0.999), "noise_scale": Range(0.03, 0.3, log=True)}
        return {**rates, **more, "batch_size": Choice((100, 256)), "n_step": Choice((1, 3))}

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> TD3:
        """A learner of these settings."""
        return TD3(self, env, device=device, seed=seed)


@final
class TD3(TransitionLearner):
    """A policy, one critic or two, and their targets.

    Args:
        env: Its agent.
    """

    config: TD3Config

    def __init__(self, config: TD3Config, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how = network_options(config)
        group = env.groups[0]
        super().__init__(config, device, seed)
        with self.networks.seeded() as generator:
            self.policy = TanhPolicy(group, name=config.name.upper(), generator=generator, **how)
            width, count = self.policy.box.width, 2 if config.twin_q else 1
            self.critics = Critics(count, group.obs_space, width, generator=generator, **how)
        self.policy_target, self.critics_target = target_of(self.policy), target_of(self.critics)
        parts = {"policy": self.policy, "critics": self.critics}
        targets = {"policy_target": self.policy_target, "critics_target": self.critics_target}
        self.acting = self.policy
        self.networks.add("agent", nn.ModuleDict({**parts, **targets}))
        optimize = self.networks.optimize
        self._policy = optimize("policy", self.policy, self.policy_target, config.actor_lr, clip_whole=True)
        self._critics = optimize("critics", self.critics, self.critics_target, config.critic_lr, clip_whole=True)

    def update(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """One step of the critics, and of the policy when it is due; metrics, and rows' errors ``[B]``."""
        config = self.config
        rows, how = self._begin(batch)
        loss, td_error, q = self.critic_loss(rows)
        metrics = {"critic_loss": loss.detach(), "critic_grad_norm": self._critics.step(loss, **how), "q": q.mean()}
        if self.networks.updates % config.policy_delay == 0:
            loss = self.actor_loss(rows)
            metrics |= {"actor_loss": loss.detach(), "actor_grad_norm": self._policy.step(loss, **how)}
            self._policy.update_target(config.tau)
            self._critics.update_target(config.tau)
        return metrics, td_error.abs().mean(dim=0)

    def critic_loss(self, rows: TensorBatch) -> tuple[Tensor, Tensor, Tensor]:
        """(r + gamma^n min_i Q'_i(s', pi'(s') + noise) - Q_i(s, a))^2 for all i; errors and Q ``[N, B]`` too."""
        config = self.config
        with torch.no_grad():
            action = self.policy_target(rows["next_obs"])
            if config.target_policy_noise:
                noise = torch.randn(action.shape, generator=self.networks.generator, device=action.device)
                most = config.target_noise_clip
                action = (action + (config.target_policy_noise * noise).clamp(-most, most)).clamp(-1, 1)
            next_q = self.critics_target(rows["next_obs"], action).squeeze(-1).amin(dim=0)
            td_target = rows["reward"] + rows["discount"] * next_q
        q = self.critics(rows["obs"], self.policy.box.normalize(rows["action"])).squeeze(-1)
        td_error = td_target - q
        loss = self._td_loss(td_error)
        if config.per_alpha:
            loss = loss * rows["weights"].float()
        return loss.mean(dim=1).sum(), td_error.detach(), q.detach()

    def actor_loss(self, rows: TensorBatch) -> Tensor:
        """-E[Q_1(s, pi(s))]."""
        with frozen(self._critics.parameters):
            return -self.critics.first(rows["obs"], self.policy(rows["obs"])).mean()

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> DeterministicActor:
        """An agent that acts with the weights of now."""
        config, policy = self.config, copy.deepcopy(self.policy)
        how: dict[str, Any] = {"explore": explore, "seed": seed, "noise": config.noise, "scale": config.noise_scale}
        return DeterministicActor(policy, num_envs, self.networks.device, random_steps=config.learning_starts, **how)

    def policy_module(self) -> TanhAction:
        """The policy alone, as a function of tensors; a copy."""
        return TanhAction(copy.deepcopy(self.policy))

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agent."""
        return {self.policy.group.name: self.policy}
