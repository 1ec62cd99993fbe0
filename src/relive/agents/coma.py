"""COMA: policy gradients with a counterfactual baseline (Foerster et al. 2018).

An agent's advantage is what its action was worth, less what its other actions would have been on average while all
others do the same. See docs/algorithms/coma.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm, StochasticPolicy, fields_of_group, one_step
from relive.agents.advice import one_team
from relive.agents.checks import AT_LEAST_0, UNIT, check
from relive.agents.interface import Schedule
from relive.agents.joint_critic import JointActions, JointCritic
from relive.agents.presets import COMA_PRESETS
from relive.agents.reward_stats import RewardStats
from relive.agents.rollout_batches import read_epochs
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import (
    NetworkSettings,
    OptimizerSettings,
    RolloutSettings,
    network_options,
    recurrent_size,
)
from relive.agents.state import Networks, as_floats
from relive.agents.stochastic_actor import Acting, StochasticLearner, row_fields
from relive.envs.interface import AgentGroup, Env
from relive.errors import OptionError
from relive.learn.agent_networks import Packed
from relive.learn.distributions import Categorical
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES, masked_mean
from relive.learn.polyak import target_of
from relive.learn.schedules import linear
from relive.memory import Rollout, Storage
from relive.tensors import to_torch
from relive.types import Arrays

__all__ = ["COMA", "COMAConfig"]


@final
@dataclass(frozen=True)
class COMAConfig(NetworkSettings, OptimizerSettings, RolloutSettings):
    """COMA: policy gradient with a counterfactual baseline."""

    default_num_envs: ClassVar[int] = 32

    gamma: float = 0.95
    td_lambda: float = 0.8
    """Lambda of the critics' TD(lambda) returns."""
    n_step: int = 0
    """Returns of n rewards in place of TD(lambda); 0: TD(lambda)."""
    rollout: int = 25
    critic_epochs: int = 4
    """Epochs of the critics over each rollout; policies take one step."""
    actor_lr: float = 7e-4
    """Learning rate of the policies."""
    critic_lr: float = 7e-4
    """Learning rate of the critics."""
    lr_steps: int = 5_000_000
    eps: float = 1e-5
    """Adam's epsilon."""
    max_grad_norm: float = 10.0
    target_update_interval: int = 10
    """Updates between hard copies to the target critics."""
    tau: float = 0.0
    """Polyak factor tau of the target critics, in place of hard copies; 0: hard copies."""
    normalize_advantage: bool = True
    """Divide advantages by their deviation."""
    standardize_reward: bool = True
    """Standardise rewards by their running mean and deviation."""
    reward: Literal["sum", "mean"] = "mean"
    """Team reward, where agents have their own."""
    init: Literal["uniform", "xavier", "orthogonal"] = "orthogonal"
    parameter_sharing: bool = True
    """One network per group of agents, in place of one per agent."""

    def __post_init__(self) -> None:
        check(self, n_step=AT_LEAST_0, tau=UNIT)

    @property
    def name(self) -> str:
        """What it is called by."""
        return "coma"

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """What published code uses, by its name."""
        return COMA_PRESETS

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        rates = dict.fromkeys(("actor_lr", "critic_lr"), Range(1e-4, 3e-3, log=True))
        more: SearchSpace = {"gamma": Range(0.9, 0.99), "td_lambda": Range(0.5, 0.95)}
        return {**rates, **more, "entropy": Range(1e-4, 0.1, log=True), "critic_epochs": Choice((1, 4, 10))}

    def schedule(self, num_envs: int) -> Schedule:
        """An update after every rollout."""
        return Schedule(self.rollout * num_envs, first=self.rollout * num_envs)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Rollout:
        """A rollout: what the environment gives, and recurrent states."""
        schema, units = env.schema, recurrent_size(self)
        for group in env.groups:
            schema = schema.with_fields(**row_fields(group, policy_state=units))
        return Rollout(schema, self.rollout, lanes, storage=storage, seed=seed)

    def advice(self, env: Env, metrics: Mapping[str, float]) -> str:
        """What someone whose agents are opponents should know."""
        return one_team(f"coma learns the {self.reward}", env, metrics, "mappo or maddpg")

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> COMA:
        """A learner of these settings."""
        return COMA(self, env, device=device, seed=seed)


@final
class COMA(StochasticLearner):
    """Policies and critics of all agents, who are one team.

    Args:
        env: Its agents, its state if it has one.
    """

    def __init__(self, config: COMAConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config = config
        self.groups: tuple[AgentGroup, ...] = env.groups
        self._shared_reward = env.shared_reward
        for group in env.groups:
            if not isinstance(group.action_space, spaces.Discrete):
                remedy = "Its baseline is a sum over an agent's choices; MAPPO learns other actions."
                raise OptionError("action space", "be Discrete", group.action_space, remedy)
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how: dict[str, Any] = {**network_options(config), "shared": config.parameter_sharing}
        self.joint = JointActions(env.groups)
        self.networks = Networks(device, seed)
        with self.networks.seeded() as generator:
            how["generator"] = generator
            self.policies = [
                StochasticPolicy(group, recurrent=config.recurrent, rnn=config.rnn, **how) for group in env.groups
            ]
            self.critics = [JointCritic(env, i, self.joint, kind="auto", **how) for i in range(len(env.groups))]
        self.targets = [target_of(critic) for critic in self.critics]
        self.obs_norm = ObsNorm(env, enabled=config.normalize_obs)
        self.reward_stats = RewardStats(1, standardize=config.standardize_reward)
        for name, module in (("joint", self.joint), ("obs", self.obs_norm), ("reward", self.reward_stats)):
            self.networks.add(name, module)
        self.trained = []
        for group, policy, critic, target in zip(env.groups, self.policies, self.critics, self.targets, strict=True):
            label = group.name or "agents"
            parts: dict[str, nn.Module] = {"policy": policy, "critic": critic, "target": target}
            self.networks.add(label, nn.ModuleDict(parts))
            optimize = self.networks.optimize
            steps = optimize(f"{label}.policy", policy, None, config.actor_lr, config.eps)
            self.trained.append((steps, optimize(f"{label}.critic", critic, target, config.critic_lr, config.eps)))
        self.acting = Acting(self.policies, [], self.obs_norm)

    def learn(self, memory: Rollout, obs: Arrays) -> dict[str, float]:
        """One update from a rollout, which is cleared: critics first, then policies."""
        config, steps = self.config, len(memory)
        value, next_value = self._chosen_values(memory), self._next_values(memory, obs)
        how: dict[str, Any] = {"gamma": config.gamma, "lam": config.td_lambda, "n_step": config.n_step or None}
        reward = self._reward(memory)
        memory.finish(next_value, value=value, reward=lambda *_: reward, **how)
        reading: dict[str, Any] = {"length": config.rollout, "device": self.networks.device}
        batches = read_epochs(memory, self.groups, config.critic_epochs, minibatches=config.minibatches, **reading)
        found = [self.update_critics(rows) for rows, _ in batches]
        metrics = {name: torch.stack([each[name] for each in found]).mean() for name in found[0]}
        for rows, packed in read_epochs(memory, self.groups, 1, minibatches=1, **reading):
            metrics |= self.update_policies(rows, packed)
        if config.normalize_obs:  # only now: the rollout was of policies that read the old ones
            self.obs_norm.update(to_torch(memory.rows(), self.networks.device))
        memory.clear()
        self.networks.count_update(steps)
        if config.tau or self.networks.updates % config.target_update_interval == 0:
            for _, critic in self.trained:
                critic.update_target(config.tau or 1.0)
        return {**as_floats(metrics), "samples": steps * config.critic_epochs}

    def update_critics(self, rows: Mapping[str, Any]) -> dict[str, Tensor]:
        """One step of the critics from rows ``[R, ...]``: (y - Q(s, u))^2 with y the TD(lambda) return."""
        metrics, rows = dict[str, Tensor](), self.obs_norm(rows)
        actions = self.joint(rows)
        for index, group in enumerate(self.groups):
            td_error = fields_of_group(group, rows)["returns"] - self._chosen(self.critics[index], rows, actions, index)
            loss = self._td_loss(td_error).mean()
            metrics[group.key("critic_loss")] = loss.detach()
            metrics[group.key("critic_grad_norm")] = self._step(self.trained[index][1], loss)
        return metrics

    def update_policies(self, rows: Mapping[str, Any], packed: Mapping[str, Packed]) -> dict[str, Tensor]:
        """One step of the policies from rows ``[R, ...]``, which are sequences if policies are recurrent."""
        metrics, rows = dict[str, Tensor](), self.obs_norm(rows)
        actions = self.joint(rows)
        for index, group in enumerate(self.groups):
            fields, alive = fields_of_group(group, rows), fields_of_group(group, rows).get("agent_mask")
            policy, _ = self.policies[index](rows, packed.get(group.key("policy_state")))
            with torch.no_grad():
                advantage = self.advantage(index, rows, actions, policy)
                if self.config.normalize_advantage:
                    advantage = advantage / masked_mean(advantage.square(), alive).sqrt().clamp(min=1e-8)
            log_prob = policy.log_prob(self.policies[index].head.stored(fields))
            actor_loss = -masked_mean(log_prob * advantage, alive)
            entropy = masked_mean(policy.entropy(), alive)
            norm = self._step(self.trained[index][0], actor_loss - self.config.entropy * entropy)
            found = {"actor_loss": actor_loss.detach(), "entropy": entropy.detach(), "actor_grad_norm": norm}
            metrics |= {group.key(name): value for name, value in found.items()}
        return metrics

    def advantage(self, index: int, rows: Mapping[str, Any], actions: list[Tensor], policy: Categorical) -> Tensor:
        """A_a(s, u) = Q(s, u) - sum_u' pi(u'|o) Q(s, (u_-a, u')): equation 4, ``[R, A]``."""
        q = self.critics[index](rows, actions)
        return (q * actions[index]).sum(dim=-1) - (policy.log_probs.exp() * q).sum(dim=-1)

    def _chosen(self, critic: nn.Module, rows: Mapping[str, Any], actions: list[Tensor], index: int) -> Tensor:
        """Q of what was done, ``[R, A]``."""
        q: Tensor = critic(rows, actions)
        return (q * actions[index]).sum(dim=-1)

    @torch.no_grad()
    def _chosen_values(self, memory: Rollout) -> dict[str, Any]:
        """Target critics' Q of what was done in all steps, by the name of a value."""
        rows = self.obs_norm(to_torch(memory.rows(), self.networks.device))
        actions = self.joint(rows)
        each = enumerate(zip(self.groups, self.targets, strict=True))
        return {
            group.key("value"): self._chosen(target, rows, actions, index).cpu().numpy()
            for index, (group, target) in each
        }

    @torch.no_grad()
    def _next_values(self, memory: Rollout, obs: Mapping[str, Any]) -> dict[str, Any]:
        """V = sum_u pi(u|o) Q'(s, (u_-a, u)) of what was seen after the last steps, while the others act by chance."""
        last_rows = self.obs_norm(to_torch(memory.bootstrap(**obs), self.networks.device))
        before = self.obs_norm(to_torch(memory.before_bootstrap(), self.networks.device))
        policies, actions = [], []
        for policy, head in zip(self.policies, self.joint.heads, strict=True):
            state = fields_of_group(policy.group, before).get("policy_state")
            if state is not None:  # which was before the last step
                state = policy(before, one_step(state, policy.networks))[1]
            distribution: Any = policy(last_rows, one_step(state, policy.networks))[0]
            drawn = policy.head.env_action(distribution.sample(self.networks.generator))
            policies.append(distribution.log_probs.exp())
            actions.append(head.normalize(drawn))  # type: ignore[operator]
        return {
            group.key("value"): (probs * target(last_rows, actions)).sum(dim=-1).cpu()
            for group, probs, target in zip(self.groups, policies, self.targets, strict=True)
        }

    def _reward(self, memory: Rollout) -> Any:
        """The team's reward of all steps, ``[n]``."""
        if self._shared_reward:
            reward = memory["reward"]
        else:
            every = np.concatenate([memory[group.key("reward")] for group in self.groups], axis=1)
            reward = every.sum(axis=1) if self.config.reward == "sum" else every.mean(axis=1)
        return self.reward_stats.learned(torch.as_tensor(reward, device=self.networks.device)).cpu().numpy()

    def _step(self, trained: Any, loss: Tensor) -> Tensor:
        config = self.config
        lr_scale = linear(1.0, config.lr_end, config.lr_steps, self.networks.steps)
        found: Tensor = trained.step(loss, max_grad_norm=config.max_grad_norm, lr_scale=lr_scale)
        return found
