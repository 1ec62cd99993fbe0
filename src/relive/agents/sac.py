"""SAC: soft actor-critic (Haarnoja et al. 2018) of one agent, with a temperature that is learned.

Choices are learned by sums over them (Christodoulou 2019), continuous actions by reparametrised ones. See
docs/algorithms/sac.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from gymnasium import spaces
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm
from relive.agents.one_agent import ActorCriticSettings, TransitionLearner
from relive.agents.policy_modules import LikeliestAction
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import TemperatureSettings, network_options
from relive.agents.solo_policy import ActorCritic, SoloActor
from relive.envs.interface import Env
from relive.errors import OptionError
from relive.learn.critics import Critics, Temperature
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES
from relive.learn.optimizers import frozen
from relive.learn.polyak import target_of
from relive.memory import Batch
from relive.tensors import TensorBatch

__all__ = ["SAC", "SACConfig"]


@final
@dataclass(frozen=True)
class SACConfig(TemperatureSettings, ActorCriticSettings):
    """SAC: soft actor-critic, continuous or discrete actions, with a learned temperature."""

    actor_lr: float = 3e-4

    @property
    def name(self) -> str:
        """What it is called by."""
        return "sac"

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        rates = dict.fromkeys(("actor_lr", "critic_lr"), Range(1e-4, 3e-3, log=True))
        more: SearchSpace = {"gamma": Range(0.97, 0.999), "tau": Range(0.002, 0.02, log=True)}
        return {**rates, **more, "batch_size": Choice((128, 256)), "n_step": Choice((1, 3))}

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> SAC:
        """A learner of these settings."""
        return SAC(self, env, device=device, seed=seed)


class Drawn(NamedTuple):
    """What a policy does in states ``[B]``: an action that was drawn, or all choices with their probabilities."""

    action: Tensor | None
    """Normalised, ``[B, n]``; None: choices are added up."""
    log_prob: Tensor
    """Of the action ``[B, 1]``, or of every choice ``[B, n]``."""
    weight: Tensor
    """What each counts in a mean over actions: 1, or its probability."""

    def mean(self, values: Tensor) -> Tensor:
        """The mean of values ``[B, 1]`` or ``[B, n]`` over actions, ``[B]``."""
        return (self.weight * values).sum(dim=-1)


@final
class SAC(TransitionLearner):
    """A policy, two critics with their targets, and a temperature.

    Args:
        env: Its agent.
    """

    config: SACConfig

    def __init__(self, config: SACConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how = network_options(config)
        group = env.groups[0]
        space = group.action_space
        if not isinstance(space, (spaces.Discrete, spaces.Box)):
            raise OptionError("action space", "be Discrete or a Box", space, "PPO learns several choices at once.")
        self._choices = int(space.n) if isinstance(space, spaces.Discrete) else 0
        super().__init__(config, device, seed)
        with self.networks.seeded() as generator:
            how["generator"] = generator
            self.policy = ActorCritic(group, critic=False, squash=True, **how)
            self._width = 0 if self._choices else self.policy.head.outputs // 2
            self.critics = Critics(2, group.obs_space, self._width, outputs=self._choices or 1, **how)
        self.target, self.temperature = target_of(self.critics), Temperature(config.alpha)
        self._as_it_is = ObsNorm(env, enabled=False)
        self.acting = nn.ModuleList([self.policy, self._as_it_is])
        parts = {"policy": self.policy, "critics": self.critics, "critics_target": self.target}
        self.networks.add("agent", nn.ModuleDict({**parts, "temperature": self.temperature}))
        optimize = self.networks.optimize
        self._policy = optimize("policy", self.policy, None, config.actor_lr, clip_whole=True)
        self._critics = optimize("critics", self.critics, self.target, config.critic_lr, clip_whole=True)
        self._alpha = optimize("alpha", self.temperature, None, config.alpha_lr, clip_whole=True)

    def update(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """One step of everything; metrics, and what a row's priority is made of ``[B]``."""
        config = self.config
        rows, how = self._begin(batch)
        loss, td_error, q = self.critic_loss(rows)
        metrics = {"critic_loss": loss.detach(), "critic_grad_norm": self._critics.step(loss, **how), "q": q.mean()}
        loss, entropy = self.actor_loss(rows)
        metrics |= {"actor_loss": loss.detach(), "actor_grad_norm": self._policy.step(loss, **how)}
        if config.alpha_lr:
            spare = (entropy - self._target_entropy(rows)).mean()
            self._alpha.step((self.temperature.log_alpha * spare).sum(), max_grad_norm=0.0)
        self._critics.update_target(config.tau)
        return {**metrics, "alpha": self.temperature.alpha, "entropy": entropy.mean()}, td_error.abs().mean(dim=0)

    def critic_loss(self, rows: TensorBatch) -> tuple[Tensor, Tensor, Tensor]:
        """(r + gamma^n E[min_i Q'_i(s', a') - alpha log pi(a'|s')] - Q_i(s, a))^2 for both; errors and Q ``[2, B]``."""
        with torch.no_grad():
            next_rows = {name.removeprefix("next_"): rows[name] for name in rows if name.startswith("next_")}
            drawn = self._drawn(next_rows)
            q = self.target(next_rows["obs"], drawn.action).amin(dim=0)
            next_value = drawn.mean(q - self.temperature.alpha * drawn.log_prob)
            td_target = rows["reward"] + rows["discount"] * next_value
        action = self.policy.head.stored(rows)
        if self._choices:
            q = self.critics(rows["obs"]).gather(2, action.expand(2, -1)[..., None]).squeeze(-1)
        else:
            q = self.critics(rows["obs"], action).squeeze(-1)
        td_error = td_target - q
        loss = self._td_loss(td_error)
        if self.config.per_alpha:
            loss = loss * rows["weights"].float()
        return loss.mean(dim=1).sum(), td_error.detach(), q.detach()

    def actor_loss(self, rows: TensorBatch) -> tuple[Tensor, Tensor]:
        """E[alpha log pi(a|s) - min_i Q_i(s, a)]; and the policy's entropy ``[B]``."""
        drawn = self._drawn(rows)
        with frozen(self._critics.parameters):
            q = self.critics(rows["obs"], drawn.action).amin(dim=0)
        loss = drawn.mean(self.temperature.alpha * drawn.log_prob - q).mean()
        return loss, -drawn.mean(drawn.log_prob).detach()

    def _drawn(self, rows: Mapping[str, Any]) -> Drawn:
        distribution: Any = self.policy(rows, {}).distribution
        if self._choices:
            return Drawn(None, distribution.log_probs, distribution.log_probs.exp())
        action, log_prob = distribution.rsample_with_log_prob(self.networks.generator)
        return Drawn(action, log_prob[:, None], torch.ones_like(log_prob[:, None]))

    def _target_entropy(self, rows: Mapping[str, Any]) -> Any:
        """The entropy that the temperature is learned for, ``[B]`` or one for all."""
        if not self._choices:
            return -float(self._width)
        free = rows["avail_actions"].sum(dim=-1).float() if self.policy.group.avail else torch.tensor(self._choices)
        return self.config.target_entropy * torch.log(free)

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> SoloActor:
        """An agent that acts with the weights of now."""
        how: dict[str, Any] = {"explore": explore, "seed": seed, "random_steps": self.config.learning_starts}
        device = self.networks.device
        return SoloActor(copy.deepcopy(self.policy), self._as_it_is, num_envs, device, replayed=True, **how)

    def policy_module(self) -> LikeliestAction:
        """The policy alone, as a function of tensors; a copy."""
        return LikeliestAction(copy.deepcopy(self.policy), self._as_it_is)

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agent."""
        return {self.policy.group.name: self.policy}
