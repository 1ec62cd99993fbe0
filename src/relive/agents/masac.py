"""MASAC: soft actor-critic (Haarnoja et al. 2018) of many agents, each with critics that see everyone.

With critics that see their own agent only ISAC. Choices are learned by sums over them (Christodoulou 2019), continuous
actions by reparametrised ones. See docs/algorithms/masac.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from gymnasium import spaces
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm, StochasticPolicy, fields_of_group, seen_after
from relive.agents.checks import check
from relive.agents.interface import Schedule
from relive.agents.joint_critic import JointActions, JointCritic
from relive.agents.presets import MASAC_PRESETS
from relive.agents.replay import replay_memory
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import (
    NetworkSettings,
    OptimizerSettings,
    ReplaySettings,
    TemperatureSettings,
    network_options,
)
from relive.agents.state import Networks, Trained, as_floats
from relive.agents.stochastic_actor import Acting, StochasticLearner
from relive.envs.interface import AgentGroup, Env
from relive.errors import OptionError
from relive.learn.critics import Temperature
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES, masked_mean
from relive.learn.optimizers import frozen
from relive.learn.polyak import target_of
from relive.learn.schedules import linear
from relive.memory import Memory, Storage
from relive.tensors import to_torch
from relive.types import Arrays

__all__ = ["MASAC", "MASACConfig"]


@final
@dataclass(frozen=True)
class MASACConfig(NetworkSettings, OptimizerSettings, TemperatureSettings, ReplaySettings):
    """Settings of MASAC and ISAC."""

    default_num_envs: ClassVar[int] = 64

    critic: Literal["auto", "own"] = "auto"
    """Critic input: auto (state or all observations, and all actions), own (the agent's own; ISAC)."""
    gamma: float = 0.95
    learning_starts: int = 10_000
    update_every: int = 25
    actor_lr: float = 1e-3
    """Learning rate of the policies."""
    critic_lr: float = 1e-3
    """Learning rate of the critics."""
    tau: float = 0.01
    """Polyak factor tau of the target critics."""
    alpha: float = 0.1
    target_entropy: float = 0.3
    max_grad_norm: float = 10.0
    parameter_sharing: bool = True
    """One network per group of agents, in place of one per agent."""
    normalize_obs: bool = False
    """Standardise observations by their running mean and deviation."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """What it is called by: masac or isac."""
        return "isac" if self.critic == "own" else "masac"

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        if self.critic == "own":
            return "ISAC: independent soft actor-critic."
        return "MASAC: soft actor-critic of many agents with centralised critics."

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """What published code uses, by its name."""
        return MASAC_PRESETS

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        rates = dict.fromkeys(("actor_lr", "critic_lr"), Range(1e-4, 3e-3, log=True))
        more: SearchSpace = {"gamma": Range(0.9, 0.99), "target_entropy": Range(0.05, 0.8)}
        return {**rates, **more, "batch_size": Choice((256, 512, 1024)), "update_every": Choice((10, 25, 50))}

    def schedule(self, _num_envs: int) -> Schedule:
        """When updates are due."""
        return Schedule(self.update_every, first=self.learning_starts)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Memory:
        """The replay memory: transitions of all agents together."""
        return replay_memory(self, env.schema, lanes=lanes, seed=seed, storage=storage)

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> MASAC:
        """A learner of these settings."""
        return MASAC(self, env, device=device, seed=seed)


@final
class MASAC(StochasticLearner):
    """Policies, twin critics and a temperature of every group of agents.

    Args:
        env: Its agents, its state if it has one.
    """

    def __init__(self, config: MASACConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config = config
        self.groups: tuple[AgentGroup, ...] = env.groups
        self._shared_reward = env.shared_reward
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how: dict[str, Any] = {**network_options(config), "shared": config.parameter_sharing}
        for group in env.groups:
            if not isinstance(group.action_space, (spaces.Discrete, spaces.Box)):
                remedy = "MADDPG learns several choices at once."
                raise OptionError("action space", "be Discrete or a Box", group.action_space, remedy)
        self.joint = JointActions(env.groups)
        self.obs_norm = ObsNorm(env, enabled=config.normalize_obs)
        self.networks = Networks(device, seed)
        self.policies: list[StochasticPolicy] = []
        self.critics: list[nn.ModuleList] = []
        self.targets: list[nn.ModuleList] = []
        self.temperatures: list[Temperature] = []
        self.trained: list[dict[str, Trained]] = []
        for name, module in (("joint", self.joint), ("obs", self.obs_norm)):
            self.networks.add(name, module)
        with self.networks.seeded() as generator:
            how["generator"] = generator
            for index, group in enumerate(env.groups):
                policy = StochasticPolicy(group, squash=True, **how)
                twins = (JointCritic(env, index, self.joint, kind=config.critic, **how) for _ in range(2))
                self._add(group, policy, nn.ModuleList(twins))
        self.acting = Acting(self.policies, [], self.obs_norm)

    def _add(self, group: AgentGroup, policy: StochasticPolicy, critics: nn.ModuleList) -> None:
        config, label, optimize = self.config, group.name or "agents", self.networks.optimize
        alpha, target = Temperature(config.alpha), target_of(critics)
        parts = {"policy": policy, "critics": critics, "targets": target, "temperature": alpha}
        self.networks.add(label, nn.ModuleDict(parts))
        self.policies.append(policy)
        self.critics.append(critics)
        self.targets.append(target)
        self.temperatures.append(alpha)
        self.trained.append(
            {
                "policy": optimize(f"{label}.policy", policy, None, config.actor_lr),
                "critic": optimize(f"{label}.critic", critics, target, config.critic_lr),
                "alpha": optimize(f"{label}.alpha", alpha, None, config.alpha_lr),
            }
        )

    def learn(self, memory: Memory, _obs: Arrays | None = None) -> dict[str, float]:
        """One update from a batch of the memory."""
        batch = memory.sample(self.config.batch_size)
        metrics, td_errors = self.update(batch)
        if self.config.per_alpha:
            mean = torch.stack([error.abs().mean(dim=(0, 2)) for error in td_errors]).mean(dim=0)
            memory.update_priorities(batch, mean.cpu().numpy())
        return {**as_floats(metrics), "samples": self.config.batch_size}

    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, Tensor], list[Tensor]]:
        """One step of all networks; metrics, and temporal-difference errors ``[2, B, A]`` of every group."""
        self.networks.count_update()
        raw = to_torch(batch, self.networks.device)
        self.obs_norm.update(raw)
        rows, next_rows = self.obs_norm(raw), self.obs_norm(seen_after(self.groups, raw))
        actions, metrics, td_errors = self.joint(rows), dict[str, Tensor](), []
        with torch.no_grad():
            next_drawn = [self._drawn(policy(next_rows)[0]) for policy in self.policies]
        for index, group in enumerate(self.groups):
            loss, td_error = self.critic_loss(index, rows, next_rows, actions, next_drawn)
            found = {"critic_loss": loss.detach(), "critic_grad_norm": self._step(index, "critic", loss)}
            td_errors.append(td_error.detach())
            loss, surplus = self.actor_loss(index, rows, actions)
            found |= {"actor_loss": loss.detach(), "actor_grad_norm": self._step(index, "policy", loss)}
            if self.config.alpha_lr:
                self._step(index, "alpha", (self.temperatures[index].log_alpha * surplus).sum())
            found["alpha"] = self._alpha(index)
            metrics |= {group.key(name): value for name, value in found.items()}
        for each in self.trained:
            each["critic"].update_target(self.config.tau)
        return metrics, td_errors

    def critic_loss(
        self,
        index: int,
        rows: Mapping[str, Any],
        next_rows: Mapping[str, Any],
        actions: list[Tensor],
        next_drawn: list[tuple[Tensor, Tensor, Tensor | None]],
    ) -> tuple[Tensor, Tensor]:
        """(r + gamma (Q' - alpha log pi) - Q)^2 with the lower of two target critics, ``[2, B, A]`` errors too."""
        group = self.groups[index]
        fields, after = fields_of_group(group, rows), fields_of_group(group, next_rows)
        with torch.no_grad():
            next_actions = [each[0] for each in next_drawn]
            q = self._lowest(self.targets[index], next_rows, next_actions, next_actions[index])
            next_value = self._soft_value(q, next_drawn[index], self._alpha(index))
            if group.mask and not self._shared_reward:  # who is gone earns nothing more
                next_value = next_value * after["agent_mask"]
            reward = rows["reward"][:, None] if self._shared_reward else fields["reward"]
            td_target = reward + rows["discount"][:, None] * next_value
        q = torch.stack([self._chosen(critic, rows, actions, index) for critic in self.critics[index]])
        td_error = td_target - q
        loss, alive = self._td_loss(td_error), None if self._shared_reward else fields.get("agent_mask")
        if alive is not None:
            td_error = td_error * alive
        if self.config.per_alpha:
            loss = loss * rows["weights"][:, None].float()
        return 2 * masked_mean(loss, None if alive is None else alive.expand_as(loss)), td_error

    def actor_loss(self, index: int, rows: Mapping[str, Any], actions: list[Tensor]) -> tuple[Tensor, Tensor]:
        """E[alpha log pi(a|o) - Q(x, a)], the others' actions being the batch's; and how much entropy is to spare."""
        group, fields = self.groups[index], fields_of_group(self.groups[index], rows)
        distribution: Any = self.policies[index](rows)[0]
        drawn = self._drawn(distribution)
        with frozen(self.trained[index]["critic"].parameters):
            q = self._lowest(self.critics[index], rows, actions, drawn[0])
        alive = fields.get("agent_mask")
        entropy = self._soft_value(torch.zeros_like(q), drawn, torch.ones(()))
        loss = -masked_mean(self._soft_value(q, drawn, self._alpha(index)), alive)
        if isinstance(group.action_space, spaces.Box):
            target_entropy: Any = -float(self.joint.widths[index])
        else:
            free = fields["avail_actions"].sum(dim=-1) if group.avail else torch.full_like(entropy, drawn[1].shape[-1])
            target_entropy = self.config.target_entropy * torch.log(free.float().clamp(min=1))
        return loss, masked_mean((entropy - target_entropy).detach(), alive)

    def _drawn(self, distribution: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """A normalised action, log-probabilities (of every choice ``[B, A, n]``, or of the action ``[B, A]``), and
        the probabilities of choices.
        """
        if hasattr(distribution, "log_probs"):
            choice = distribution.sample(self.networks.generator)
            one_hot = nn.functional.one_hot(choice, distribution.log_probs.shape[-1]).float()
            return one_hot, distribution.log_probs, distribution.log_probs.exp()
        action, log_prob = distribution.rsample_with_log_prob(self.networks.generator)
        return action, log_prob, None

    def _soft_value(self, q: Tensor, drawn: tuple[Tensor, Tensor, Tensor | None], alpha: Tensor) -> Tensor:
        """E[Q - alpha log pi], ``[B, A]``: a sum over choices, or of the action that was drawn."""
        _, log_prob, probs = drawn
        return q.squeeze(-1) - alpha * log_prob if probs is None else (probs * (q - alpha * log_prob)).sum(dim=-1)

    def _lowest(self, critics: nn.ModuleList, rows: Mapping[str, Any], actions: list[Tensor], own: Tensor) -> Tensor:
        """The lower of two critics' Q, ``[B, A, n]`` of choices or ``[B, A, 1]`` of the agents' own actions."""
        return torch.minimum(*(critic(rows, actions, None if critic.choices else own) for critic in critics))

    def _chosen(self, critic: nn.Module, rows: Mapping[str, Any], actions: list[Tensor], index: int) -> Tensor:
        """Q of what was done, ``[B, A]``."""
        if critic.choices:
            return (critic(rows, actions) * actions[index]).sum(dim=-1)
        found: Tensor = critic(rows, actions, actions[index])
        return found.squeeze(-1)

    def _alpha(self, index: int) -> Tensor:
        return self.temperatures[index].alpha

    def _step(self, index: int, what: str, loss: Tensor) -> Tensor:
        config = self.config
        lr_scale = linear(1.0, config.lr_end, config.lr_steps, self.networks.updates * config.update_every)
        return self.trained[index][what].step(loss, max_grad_norm=config.max_grad_norm, lr_scale=lr_scale)
