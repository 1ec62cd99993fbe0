"""MAPPO: proximal policy optimisation of many agents, with values of the whole environment (Yu et al. 2022).

With critics that see one agent only IPPO, and without clipping MAA2C and IA2C. See docs/algorithms/mappo.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from relive.agents.actor_critic import ObsNorm, StochasticPolicy, ValueCritic, fields_of_group, one_step
from relive.agents.checks import AT_LEAST_0, check
from relive.agents.interface import Schedule
from relive.agents.mean_field import MeanField
from relive.agents.presets import mappo_presets
from relive.agents.reward_stats import RewardStats
from relive.agents.rollout_batches import read_epochs
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import PPOSettings, network_options, recurrent_size
from relive.agents.state import Networks, mean_metrics
from relive.agents.stochastic_actor import Acting, StochasticLearner, row_fields
from relive.envs.interface import AgentGroup, Env
from relive.errors import OptionError
from relive.learn.agent_networks import Packed
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES, clipped_surrogate, clipped_value, masked_mean
from relive.learn.polyak import target_of
from relive.learn.schedules import linear
from relive.memory import Rollout, Storage
from relive.tensors import to_torch
from relive.types import Arrays

__all__ = ["MAPPO", "MAPPOConfig"]

_SUMMARIES = {
    "mfac": "MFAC: mean-field actor-critic, on the mean action of neighbours.",
    "mappo": "MAPPO: PPO of many agents with a centralised critic.",
    "ippo": "IPPO: independent PPO, a critic of own observations per agent.",
    "maa2c": "MAA2C: A2C of many agents with a centralised critic.",
    "ia2c": "IA2C: independent A2C, a critic of own observations per agent.",
}


@final
@dataclass(frozen=True)
class MAPPOConfig(PPOSettings):
    """Settings of MAPPO, IPPO, MAA2C, IA2C and MFAC."""

    default_num_envs: ClassVar[int] = 128

    critic: Literal["auto", "own", "state", "all_obs", "agent"] = "auto"
    """Critic input: own (observation; IPPO), state, all_obs, agent (central and own); auto: state or all_obs."""
    gamma: float = 0.95
    n_step: int = 0
    """Advantages from n-step returns in place of GAE; 0: GAE."""
    rollout: int = 25
    epochs: int = 5
    actor_lr: float = 1.5e-3
    """Learning rate of the policies."""
    critic_lr: float = 1.5e-3
    """Learning rate of the critics."""
    lr_steps: int = 5_000_000
    eps: float = 1e-5
    """Adam's epsilon."""
    max_grad_norm: float = 10.0
    td_loss: Any = "huber"
    """Loss of values: mse, huber, or package.module:function(td_error)."""
    target_tau: float = 0.0
    """Polyak factor tau of target critics, which returns bootstrap from; 0: no targets."""
    standardize_reward: bool = False
    """Standardise rewards by their running mean and deviation."""
    reward: Literal["auto", "own", "sum", "mean"] = "auto"
    """Reward that is learned from, where agents have their own; auto: own."""
    recurrent_critic: bool = True
    """Recurrent critics where policies are recurrent."""
    chunk_length: int = 10
    hidden: tuple[int, ...] = (128, 128)
    init: Literal["uniform", "xavier", "orthogonal"] = "orthogonal"
    log_std: float = -0.5
    parameter_sharing: bool = True
    """One network per group of agents, in place of one per agent."""
    agent_id: bool = True
    """Append a one-hot agent id to observations where parameters are shared."""
    neighbours: Literal["none", "all", "radius"] = "none"
    """Whose mean action policies, and critics of own observations, read (MFAC)."""
    radius: float = 6.0
    """Radius of neighbourhoods."""

    def __post_init__(self) -> None:
        check(self, n_step=AT_LEAST_0)
        if self.target_tau and self.value_norm != "none":
            remedy = "Target critics would be of other units than the critics."
            raise OptionError("value_norm", "be none with a target_tau", repr(self.value_norm), remedy)

    @property
    def name(self) -> str:
        """What it is called by: mappo, ippo, maa2c, ia2c or mfac."""
        own = self.critic == "own"
        if self.neighbours != "none":
            return "mfac"
        return ("ippo" if own else "mappo") if self.clip else ("ia2c" if own else "maa2c")

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        return _SUMMARIES[self.name]

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """What published code uses, by its name."""
        return mappo_presets(self.name)

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        rates = dict.fromkeys(("actor_lr", "critic_lr"), Range(1e-4, 3e-3, log=True))
        more: SearchSpace = {"gamma": Range(0.9, 0.995), "gae_lambda": Range(0.8, 1.0)}
        units, epochs = Choice(((64, 64), (128, 128))), Choice((4, 8, 15))
        return {**rates, **more, "entropy": Range(1e-4, 0.05, log=True), "hidden": units, "epochs": epochs}

    def schedule(self, num_envs: int) -> Schedule:
        """An update after every rollout."""
        return Schedule(self.rollout * num_envs, first=self.rollout * num_envs)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Rollout:
        """A rollout: what the environment gives, and what the policies said and expected of it."""
        schema, units = env.schema, recurrent_size(self)
        mean = MeanField(env.groups, self.neighbours, self.radius)
        for group in env.groups:
            critics = (len(group) if self.critic in ("own", "agent") else 1) * self.recurrent_critic
            states: dict[str, Any] = {"policy_state": units, "value_state": (critics, units)}
            schema = schema.with_fields(**row_fields(group, log_prob=True, value=True, **states), **mean.fields(group))
        return Rollout(schema, self.rollout, lanes, storage=storage, seed=seed)

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> MAPPO:
        """A learner of these settings."""
        return MAPPO(self, env, device=device, seed=seed)


@final
class MAPPO(StochasticLearner):
    """Policies and critics of all agents.

    Args:
        env: Its agents, its state if it has one.
    """

    mean_field: MeanField

    def __init__(self, config: MAPPOConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config = config
        self.groups: tuple[AgentGroup, ...] = env.groups
        self._team = env.shared_reward or config.reward in ("sum", "mean")
        self.mean_field = MeanField(env.groups, config.neighbours, config.radius)
        self._value_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how = network_options(config, "recurrent", "rnn", "agent_id") | {"shared": config.parameter_sharing}
        central: dict[str, Any] = {"kind": config.critic, "team": self._team, "value_norm": config.value_norm}
        central["recurrent"] = config.recurrent and config.recurrent_critic
        self.networks = Networks(device, seed)
        with self.networks.seeded() as generator:
            how["generator"] = generator
            self.policies, self.critics = [], []
            for group in env.groups:
                how["mean_action"] = self.mean_field.width(group)
                self.policies.append(StochasticPolicy(group, log_std=config.log_std, **how))
                self.critics.append(ValueCritic(env, group, **{**how, **central}))
        self.targets = [target_of(critic) for critic in self.critics] if config.target_tau else self.critics
        """Whose values returns are made of."""
        self.obs_norm = ObsNorm(env, enabled=config.normalize_obs)
        columns = [1 if self._team else len(group) for group in env.groups]
        self.reward_stats = nn.ModuleList(
            RewardStats(count, standardize=True) for count in columns if config.standardize_reward
        )
        self.networks.add("obs", self.obs_norm)
        self.networks.add("reward", self.reward_stats)
        self.trained = []
        for index, group in enumerate(env.groups):
            label, policy, critic = group.name or "agents", self.policies[index], self.critics[index]
            target = self.targets[index] if config.target_tau else None
            self.networks.add(label, nn.ModuleDict({"policy": policy, "critic": critic}))
            if target is not None:
                self.networks.add(f"{label}_target", target)
            optimize = self.networks.optimize
            steps = optimize(f"{label}.policy", policy, None, config.actor_lr, config.eps)
            self.trained.append((steps, optimize(f"{label}.critic", critic, target, config.critic_lr, config.eps)))
        self.acting = Acting(self.policies, self.targets, self.obs_norm)

    def learn(self, memory: Rollout, obs: Arrays) -> dict[str, float]:
        """One update from a rollout, which is cleared."""
        config, steps, rewards = self.config, len(memory), self._rewards(memory)
        memory.finish(
            self._next_values(memory, obs),
            gamma=config.gamma,
            lam=config.gae_lambda,
            n_step=config.n_step or None,
            bootstrap_on_truncation=config.bootstrap_on_truncation,
            reward=lambda name, _: rewards[name],
            normalize=config.normalize_advantage,
        )
        for index, group in enumerate(self.groups):
            returns = self._tensor(memory[group.key("returns")])
            mask = self._value_mask(self._present(memory, group))
            self.critics[index].norm.update(returns, mask, self.critics[index].networks)
        how: dict[str, Any] = {"minibatches": config.minibatches, "length": config.chunk_length}
        batches = read_epochs(memory, self.groups, config.epochs, device=self.networks.device, **how)
        found = [self.update(rows, packed) for rows, packed in batches]
        for _, critic in self.trained:
            critic.update_target(config.target_tau)
        if config.normalize_obs:  # only now: the rollout was of policies that read the old ones
            self.obs_norm.update(to_torch(memory.rows(), self.networks.device))
        memory.clear()
        self.networks.count_update(steps)
        return {**mean_metrics(found), "samples": steps * config.epochs}

    def update(self, rows: Mapping[str, Any], packed: Mapping[str, Packed]) -> dict[str, Tensor]:
        """One step of all networks from rows ``[R, ...]``, which are sequences if networks are recurrent."""
        config, metrics = self.config, dict[str, Tensor]()
        lr_scale = linear(1.0, config.lr_end, config.lr_steps, self.networks.steps)
        how: dict[str, Any] = {"max_grad_norm": config.max_grad_norm, "lr_scale": lr_scale}
        rows = self.obs_norm(rows)
        for index, group in enumerate(self.groups):
            fields = fields_of_group(group, rows)
            policy, critic = self.trained[index]
            loss, found = self.policy_loss(index, rows, fields, packed)
            found["actor_grad_norm"] = policy.step(loss, **how)
            value_loss = self.value_loss(index, rows, fields, packed)
            found |= {"critic_loss": value_loss.detach(), "critic_grad_norm": critic.step(value_loss, **how)}
            metrics |= {group.key(name): value for name, value in found.items()}
        return metrics

    def policy_loss(
        self, index: int, rows: Mapping[str, Any], fields: Mapping[str, Any], packed: Mapping[str, Packed]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """-E[min(r A, clip(r) A)] - c H with r = pi(a|o) / pi_old(a|o), of agents who are there; and metrics."""
        config, policy, alive = self.config, self.policies[index], fields.get("agent_mask")
        distribution, _ = policy(rows, packed.get(self.groups[index].key("policy_state")))
        log_prob = distribution.log_prob(policy.head.stored(fields))
        log_ratio = log_prob - fields["log_prob"]
        ratio = log_ratio.exp()
        if config.clip:
            gain = clipped_surrogate(ratio, fields["advantage"], config.clip)
        else:
            gain = log_prob * fields["advantage"]
        actor_loss, entropy = -masked_mean(gain, alive), masked_mean(distribution.entropy(), alive)
        with torch.no_grad():
            kl = masked_mean(ratio - 1 - log_ratio, alive)  # John Schulman's estimate, which is never below zero
            metrics = {"actor_loss": actor_loss.detach(), "entropy": entropy.detach(), "approx_kl": kl}
            if config.clip:
                metrics["clip_fraction"] = masked_mean(((ratio - 1).abs() > config.clip).float(), alive)
        return actor_loss - config.entropy * entropy, metrics

    def value_loss(
        self, index: int, rows: Mapping[str, Any], fields: Mapping[str, Any], packed: Mapping[str, Packed]
    ) -> Tensor:
        """The distance of V from the returns, both normalised; clipped around the rollout's values if asked."""
        critic, clip = self.critics[index], self.config.value_clip
        value, _ = critic(rows, packed.get(self.groups[index].key("value_state")))
        returns = critic.norm.normalize(fields["returns"])
        if clip:
            old_value = critic.norm.outputs_before(fields["value"])
            loss = clipped_value(value, old_value, returns, clip, self._value_loss)
        else:
            loss = self._value_loss(returns - value)
        return masked_mean(loss, self._value_mask(fields.get("agent_mask")))

    def _value_mask(self, agent_mask: Any) -> Tensor | None:
        """Whose values are learned: of agents who are there, or of all if the team's reward is theirs still."""
        return None if self._team or agent_mask is None else self._tensor(agent_mask)

    def _present(self, memory: Rollout, group: AgentGroup) -> Any:
        """Who is there in all steps, ``[n, A]``; None: always all."""
        return memory[group.key("agent_mask")] if group.mask else None

    @torch.no_grad()
    def _next_values(self, memory: Rollout, obs: Mapping[str, Any]) -> dict[str, Tensor]:
        """Values of what was seen after the last steps, by name."""
        last_rows = self.obs_norm(to_torch(memory.bootstrap(**obs), self.networks.device))
        before = self.obs_norm(to_torch(memory.before_bootstrap(), self.networks.device))
        last_rows, found = self.mean_field.next_rows(before, last_rows), {}
        for group, critic in zip(self.groups, self.targets, strict=True):
            state = fields_of_group(group, before).get("value_state")
            if state is not None:  # which was before the last step
                state = critic(before, one_step(state, critic.networks))[1]
            found[group.key("value")] = critic.value(last_rows, one_step(state, critic.networks))[0].cpu()
        return found

    def _rewards(self, memory: Rollout) -> dict[str, Any]:
        """What is learned from, by the name of a value: ``[n]`` of a team, ``[n, A]`` of agents with their own."""
        found = {}
        for index, group in enumerate(self.groups):
            reward = memory[group.key("reward") if group.key("reward") in memory else "reward"]
            if self._team and reward.ndim > 1:
                reward = reward.sum(axis=1) if self.config.reward == "sum" else reward.mean(axis=1)
            if self.reward_stats:
                stats: Any = self.reward_stats[index]
                mask = self._value_mask(self._present(memory, group))
                reward = stats.learned(self._tensor(reward), mask).cpu().numpy()
            found[group.key("value")] = reward
        return found

    def _tensor(self, array: Any) -> Tensor:
        return torch.as_tensor(array, device=self.networks.device)
