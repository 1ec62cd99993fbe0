"""MADDPG: decentralised deterministic policies, centralised critics (Lowe et al. 2017).

With options also DDPG, MATD3, mixed teams, ensembles of policies and inferred policies. See docs/algorithms/maddpg.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from relive.agents.checks import check
from relive.agents.inferred_policies import InferredPolicies
from relive.agents.interface import Schedule
from relive.agents.maddpg_actor import MADDPGActor
from relive.agents.policy_modules import DeterministicPolicy
from relive.agents.replay import replay_memory
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import NetworkSettings, OptimizerSettings, ReplaySettings
from relive.agents.state import NetworkLearner, Networks, Trained, as_floats
from relive.agents.transitions import GroupBatch, GroupReader
from relive.envs.interface import AgentGroup, Env
from relive.errors import OptionError
from relive.learn.actions import action_head
from relive.learn.encoders import ENCODERS
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES
from relive.learn.optimizers import frozen
from relive.learn.policies import Critic, Policy, network_maker
from relive.learn.polyak import target_of
from relive.learn.schedules import linear
from relive.memory import Memory, Storage
from relive.schema import Field
from relive.tensors import to_torch
from relive.types import Arrays

__all__ = ["MADDPG", "MADDPGConfig"]


@final
@dataclass(frozen=True)
class MADDPGConfig(NetworkSettings, OptimizerSettings, ReplaySettings):
    """MADDPG: multi-agent DDPG, decentralised policies and centralised critics."""

    default_num_envs: ClassVar[int] = 64

    gamma: float = 0.95
    learning_starts: int = 10_000
    update_every: int = 25
    actor_lr: float = 3e-3
    """Learning rate of the policies."""
    critic_lr: float = 3e-3
    """Learning rate of the critics."""
    tau: float = 0.01
    """Polyak factor tau of the targets."""
    split_critic_input: bool = False
    """Separate first layers of the critics for observations and actions."""
    max_grad_norm: float = 0.5
    """Maximum gradient norm of each network; 0: no clipping."""
    logit_penalty: float = 1e-3
    """Coefficient of the squared policy outputs in the policy loss."""
    temperature: float = 1.0
    """Temperature of the Gumbel-softmax of discrete actions."""
    simplex_actions: bool = False
    """Continuous actions from 0 to 1 add up to one, sampled as in OpenAI's code."""
    straight_through: bool = True
    """Straight-through Gumbel-softmax: critics see one-hot actions."""
    noise: Literal["gaussian", "ou"] = "gaussian"
    """Exploration noise of continuous actions: gaussian, or ou (Ornstein-Uhlenbeck)."""
    noise_start: float = 0.3
    """Initial standard deviation of the noise, where -1 to 1 spans actions."""
    noise_end: float = 0.05
    """Final standard deviation of the noise."""
    noise_steps: int = 500_000
    """Environment steps over which it is annealed linearly."""
    epsilon: float = 0.0
    """Probability epsilon of a uniform action, with discrete actions."""
    ddpg: tuple[str, ...] = ()
    """Groups whose critics see their own agent only (DDPG)."""
    parameter_sharing: tuple[str, ...] = ()
    """Groups whose agents share their networks ("all": every group)."""
    twin_q: bool = False
    """Clipped double Q-learning: targets take the lower of two critics (MATD3)."""
    policy_delay: int = 1
    """Critic updates per update of policies and targets (MATD3)."""
    target_policy_noise: float = 0.0
    """Target policy smoothing: noise on the targets' continuous actions (MATD3)."""
    ensemble: int = 1
    """Policies per agent, of which every episode draws one."""
    infer_policies: bool = False
    """Infer the other agents' policies from their actions, in place of knowing them."""
    infer_entropy: float = 1e-3
    """Entropy coefficient of inferred policies."""
    normalize_obs: bool = False
    """Standardise observations by their running mean and deviation."""
    normalize_reward: bool = False
    """Divide rewards by their running root mean square."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """What it is called by."""
        return "maddpg"

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        rates = dict.fromkeys(("actor_lr", "critic_lr"), Range(3e-4, 1e-2, log=True))
        units = Choice(((64, 64), (128, 128), (256, 256)))
        more: SearchSpace = {"gamma": Range(0.9, 0.99), "tau": Range(0.003, 0.03, log=True), "hidden": units}
        return {**rates, **more, "batch_size": Choice((256, 512, 1024)), "update_every": Choice((10, 25, 50, 100))}

    def schedule(self, _num_envs: int) -> Schedule:
        """When updates are due."""
        return Schedule(self.update_every, first=self.learning_starts)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Memory:
        """The replay memory: transitions of all agents together."""
        schema = env.schema
        if self.ensemble > 1:
            for group in env.groups:
                schema = schema.with_fields(**{group.key("ensemble_index"): Field((len(group),), "uint8")})
        return replay_memory(self, schema, lanes=lanes, seed=seed, storage=storage)

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> MADDPG:
        """A learner of these settings."""
        return MADDPG(self, env.groups, device=device, seed=seed)


@final
class Group(nn.Module):
    """The networks of one group of agents."""

    def __init__(self, config: MADDPGConfig, groups: Sequence[AgentGroup], index: int, generator: Any) -> None:
        super().__init__()
        self.spec = spec = groups[index]
        how: dict[str, Any] = {"temperature": config.temperature, "straight_through": config.straight_through}
        heads = [action_head(g.action_space, simplex_actions=config.simplex_actions, **how) for g in groups]
        self.head = head = heads[index]
        normalized = {"normalize_obs": config.normalize_obs, "normalize_reward": config.normalize_reward}
        self.reader = GroupReader(spec, head, **normalized)
        self.own = spec.name in config.ddpg or "all" in config.ddpg
        """Whether critics see their own agent only."""
        shared = spec.name in config.parameter_sharing or "all" in config.parameter_sharing
        encoder = resolve("encoder", config.encoder, ENCODERS)
        network = resolve("network", config.network, {"mlp": None})
        options = {"activation": config.activation, "init": config.init, "generator": generator}
        make = network_maker(network, config.hidden, **options)
        parts: dict[str, Any] = {"make": make, "encoder": encoder, "shared": shared}
        every = [(len(g), g.obs_space) for g in groups]
        self.policy = Policy(len(spec), spec.obs_space, head.outputs, ensemble=config.ensemble, **parts)
        width = head.width if self.own else sum(len(g) * h.width for g, h in zip(groups, heads, strict=True))
        read: dict[str, Any] = {"spaces": [every[index]] if self.own else every, "action_width": width}
        self.critics = nn.ModuleList(
            Critic(len(spec), own=self.own, split=config.split_critic_input, **read, **parts)
            for _ in range(2 if config.twin_q else 1)
        )
        self.policy_target, self.critic_targets = target_of(self.policy), target_of(self.critics)
        infers = config.infer_policies and not self.own
        self.inferred = InferredPolicies(index, every, heads, make, encoder) if infers else None

    def critic_inputs(self, mine: int, obs: list[Any], action: list[Tensor]) -> tuple[list[Any], list[Tensor]]:
        """What critics read of all groups' observations ``[A, B, ...]`` and actions ``[A, B, n]``: everything, or each
        agent its own.
        """
        if self.own:
            return [obs[mine]], [action[mine]]
        return obs, [each.transpose(0, 1).flatten(1) for each in action]


@final
class MADDPG(NetworkLearner):
    """Policies and critics of all agents.

    Args:
        groups: The environment's agents.
    """

    acting: nn.ModuleList

    def __init__(
        self,
        config: MADDPGConfig,
        groups: Sequence[AgentGroup],
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        for name in (*config.ddpg, *config.parameter_sharing):
            if name != "all" and name not in [group.name for group in groups]:
                known = ", ".join(group.name or "(one group without a name)" for group in groups)
                raise OptionError("group", f"be one of {known}, or all", repr(name))
        self.config = config
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        self.networks = Networks(device, seed)
        with self.networks.seeded() as generator:
            self.groups = [Group(config, groups, index, generator) for index in range(len(groups))]
        self.acting = nn.ModuleList(nn.ModuleList([group.policy, group.reader]) for group in self.groups)
        self.trained: list[dict[str, Trained]] = []
        """What learns of every group: policy, critic, and inferred policies if there are any."""
        for group in self.groups:
            label = group.spec.name or "agents"
            self.networks.add(label, group)
            parts: dict[str, tuple[nn.Module, nn.Module, float]] = {
                "policy": (group.policy, group.policy_target, config.actor_lr),
                "critic": (group.critics, group.critic_targets, config.critic_lr),
            }
            if group.inferred is not None:
                parts["inferred"] = (group.inferred.policies, group.inferred.targets, config.actor_lr)
            optimize = self.networks.optimize
            self.trained.append({what: optimize(f"{label}.{what}", *part) for what, part in parts.items()})

    def learn(self, memory: Memory, _obs: Arrays | None = None) -> dict[str, float]:
        """One update from a batch of the memory."""
        batch = memory.sample(self.config.batch_size)
        recent = memory.inspect.newest(self.config.batch_size) if self.config.infer_policies else None
        metrics, td_errors = self.update(batch, recent)
        if self.config.per_alpha:
            mean = torch.stack([error.abs().mean(dim=(0, 1)) for error in td_errors]).mean(dim=0)
            memory.update_priorities(batch, mean.cpu().numpy())
        return {**as_floats(metrics), "samples": self.config.batch_size}

    def update(
        self, batch: Mapping[str, Any], recent: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        """One step of all networks; metrics, and temporal-difference errors ``[critics, A, B]`` of every group.

        Args:
            recent: What agents did lately, for inferred policies; None: those of the batch.
        """
        config = self.config
        self.networks.count_update()
        rows = to_torch(batch, self.networks.device)
        data = [group.reader.transitions(rows) for group in self.groups]
        with torch.no_grad():
            next_action = [self._target_action(*pair) for pair in zip(self.groups, data, strict=True)]
        lately = data if recent is None else self._rows(recent)
        metrics: dict[str, Tensor] = {}
        td_errors = []
        for index, group in enumerate(self.groups):
            if group.inferred is not None:
                loss = group.inferred.loss(lately, config.infer_entropy)
                self._step(index, "inferred", loss.sum())
                metrics[group.spec.key("inferred_loss")] = loss.detach().mean()
            loss, td_error = self.critic_loss(index, data, next_action, rows)
            metrics[group.spec.key("critic_grad_norm")] = self._step(index, "critic", loss)
            metrics[group.spec.key("critic_loss")] = loss.detach()
            td_errors.append(td_error.detach())
        if self.networks.updates % config.policy_delay == 0:
            for index, group in enumerate(self.groups):
                loss = self.actor_loss(index, data)
                metrics[group.spec.key("actor_grad_norm")] = self._step(index, "policy", loss)
                metrics[group.spec.key("actor_loss")] = loss.detach()
            for part in (part for trained in self.trained for part in trained.values()):
                part.update_target(config.tau)
        return metrics, td_errors

    def critic_loss(
        self, index: int, data: list[GroupBatch], next_action: list[Tensor], rows: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Y = r + gamma Q'(x', a_1' .. a_N'), a_j' = mu_j'(o_j'): equation 6. TD errors are ``[critics, A, B]``."""
        group, own = self.groups[index], data[index]
        with torch.no_grad():
            next_obs = [each.next_obs for each in data]
            obs, action = group.critic_inputs(index, next_obs, next_action)
            if group.inferred is not None:  # what the others will do is what this agent thinks they will
                action = group.inferred.next_actions(next_obs, next_action[index], [d.next_action_mask for d in data])
            next_q = [target(obs, action) for target in group.critic_targets]
            lowest = next_q[0] if len(next_q) == 1 else torch.minimum(*next_q)
            td_target = own.reward + rows["discount"] * _alive(own.next_agent_mask, lowest)
        obs, action = group.critic_inputs(index, [each.obs for each in data], [each.action for each in data])
        q = torch.stack([critic(obs, action) for critic in group.critics])
        td_error = _alive(own.agent_mask, td_target - q)
        loss = self._td_loss(td_error)
        if self.config.per_alpha:
            loss = loss * rows["weights"].float()
        return loss.sum() / len(rows["discount"]), td_error

    def actor_loss(self, index: int, data: list[GroupBatch]) -> Tensor:
        """-Q_i(x, a_1 .. a_N) where a_i is of agent i's policy and the others' are of the batch: equation 5."""
        group, own = self.groups[index], data[index]
        outputs = group.policy(own.obs, own.ensemble_index)
        own_action = group.head.distribution(outputs, own.action_mask).rsample(self.networks.generator)
        obs, action = group.critic_inputs(index, [each.obs for each in data], [each.action for each in data])
        with frozen(self.trained[index]["critic"].parameters):
            q = group.critics[0](obs, action, own=(index, own_action))
        loss = -_alive(own.agent_mask, q).sum()
        if self.config.logit_penalty:
            free = outputs if own.action_mask is None else outputs * own.action_mask
            free = free if own.agent_mask is None else free * own.agent_mask[..., None]
            loss = loss + free.square().sum() * (self.config.logit_penalty / outputs.shape[2])
        return loss / q.shape[1]

    def _target_action(self, group: Group, own: GroupBatch) -> Tensor:
        """What the target policies would do next, ``[A, B, n]``."""
        outputs = group.policy_target(own.next_obs, own.ensemble_index)
        action: Tensor = group.head.distribution(outputs, own.next_action_mask).mode()
        std = self.config.target_policy_noise
        if std and not group.head.stochastic:
            noise = torch.empty_like(action).normal_(std=std, generator=self.networks.generator)
            action = (action + noise.clamp_(-2.5 * std, 2.5 * std)).clamp_(-1, 1)
        return action

    def _rows(self, rows: Mapping[str, Any]) -> list[GroupBatch]:
        """Rows as they are stored, by group."""
        tensors = to_torch(rows, self.networks.device)
        return [group.reader.rows(tensors) for group in self.groups]

    def _step(self, index: int, what: str, loss: Tensor) -> Tensor:
        config = self.config
        lr_scale = linear(1.0, config.lr_end, config.lr_steps, self.networks.updates * config.update_every)
        return self.trained[index][what].step(loss, max_grad_norm=config.max_grad_norm, lr_scale=lr_scale)

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> MADDPGActor:
        """Agents that act with the weights of now."""
        networks = copy.deepcopy(self.acting)
        return MADDPGActor(self.config, networks, num_envs, self.networks.device, explore=explore, seed=seed)

    def policy_module(self) -> DeterministicPolicy:
        """The policies alone, as a function of tensors; a copy."""
        return DeterministicPolicy([(pair[0], pair[1]) for pair in copy.deepcopy(self.acting)])  # type: ignore[index]

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agents of every group, by its name."""
        return {group.spec.name: group.policy for group in self.groups}


def _alive(agent_mask: Tensor | None, values: Tensor) -> Tensor:
    """Values ``[..., A, B]`` of those who are alive, else 0."""
    return values if agent_mask is None else values * agent_mask
