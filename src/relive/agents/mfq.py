"""MFQ: Q-learning of many agents, each of whom sees the mean action of its neighbours (Yang et al. 2018).

Without neighbours it is independent Q-learning with a Boltzmann policy. See docs/algorithms/mean_field.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from gymnasium import spaces
from torch import Tensor, nn

from relive.agents.actor_critic import encoded, fields_of_group, seen_after
from relive.agents.checks import check
from relive.agents.interface import Schedule
from relive.agents.mean_field import MeanField
from relive.agents.mfq_actor import MFQActor
from relive.agents.presets import MFQ_PRESETS
from relive.agents.replay import replay_memory
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import NetworkSettings, OptimizerSettings, ReplaySettings, network_options
from relive.agents.state import NetworkLearner, Networks, Trained, as_floats
from relive.envs.interface import AgentGroup, Env
from relive.errors import OptionError
from relive.learn.agent_networks import AgentNetworks
from relive.learn.distributions import Categorical
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES, masked_mean
from relive.learn.policies import Encoders
from relive.learn.polyak import target_of
from relive.learn.schedules import linear
from relive.memory import Memory, Storage
from relive.tensors import to_torch
from relive.types import Arrays

__all__ = ["MFQ", "MFQConfig", "QNetwork"]


@final
@dataclass(frozen=True)
class MFQConfig(NetworkSettings, OptimizerSettings, ReplaySettings):
    """MFQ: mean-field Q-learning, on the mean action of neighbours."""

    default_num_envs: ClassVar[int] = 8

    neighbours: Literal["none", "all", "radius"] = "all"
    """Whose mean action is read: of all others of the group, of those within a radius, or none."""
    radius: float = 6.0
    """Radius of neighbourhoods."""
    gamma: float = 0.95
    batch_size: int = 32
    """Rows per batch, each of all agents."""
    capacity: int = 5_000
    update_every: int = 8
    lr: float = 5e-4
    """Learning rate."""
    lr_steps: int = 500_000
    tau: float = 0.01
    """Polyak factor tau of the targets."""
    temperature_start: float = 1.0
    """Initial temperature of the Boltzmann policy."""
    temperature_end: float = 0.05
    """Final temperature."""
    temperature_steps: int = 100_000
    """Environment steps over which it is annealed linearly."""
    max_grad_norm: float = 10.0
    td_loss: Any = "huber"
    hidden: tuple[int, ...] = (128, 128)
    parameter_sharing: bool = True
    """One network per group of agents, in place of one per agent."""
    agent_id: bool = False
    """Append a one-hot agent id to observations where parameters are shared."""

    def __post_init__(self) -> None:
        check(self)
        if self.n_step > 1 and self.neighbours != "none":
            remedy = "Rows do not hold what neighbours did that many steps later."
            raise OptionError("n_step", "be 1 with mean actions", self.n_step, remedy)

    @property
    def name(self) -> str:
        """What it is called by."""
        return "mfq"

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """What published code uses, by its name."""
        return MFQ_PRESETS

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        more: SearchSpace = {"gamma": Range(0.9, 0.99), "temperature_end": Range(0.01, 0.3, log=True)}
        return {"lr": Range(1e-4, 2e-3, log=True), **more, "batch_size": Choice((16, 32, 64))}

    def schedule(self, _num_envs: int) -> Schedule:
        """When updates are due."""
        return Schedule(self.update_every, first=self.learning_starts)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Memory:
        """The replay memory: transitions of all agents together, and the mean actions that they saw."""
        schema, mean = env.schema, MeanField(env.groups, self.neighbours, self.radius)
        for group in env.groups:
            schema = schema.with_fields(**mean.fields(group))
        return replay_memory(self, schema, lanes=lanes, seed=seed, storage=storage)

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> MFQ:
        """A learner of these settings."""
        return MFQ(self, env, device=device, seed=seed)


@final
class QNetwork(nn.Module):
    """Q of every action for the agents of a group, of what each observes and what its neighbours do on average.

    Args:
        mean_action: Numbers of the mean action; 0: it is not read.
        options: Of ``AgentNetworks``.
    """

    def __init__(self, group: AgentGroup, *, encoder: Any, shared: bool, mean_action: int, **options: Any) -> None:
        super().__init__()
        if not isinstance(group.action_space, spaces.Discrete):
            raise OptionError("action space", "be Discrete", group.action_space, "MASAC learns continuous actions.")
        self.group, self._mean_action, choices = group, bool(mean_action), int(group.action_space.n)
        self.encoders = Encoders(1 if shared else len(group), group.obs_space, encoder)
        inputs = self.encoders.features + mean_action
        self.networks = AgentNetworks(len(group), inputs, choices, shared=shared, **options)

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """Q ``[R, A, n]`` of rows ``[R, ...]``."""
        fields = fields_of_group(self.group, batch)
        features = encoded(self.encoders, fields["obs"])
        if self._mean_action:
            features = torch.cat([features, fields["mean_action"]], dim=2)
        q, _ = self.networks(features)
        return q

    def policy(self, q: Tensor, batch: Mapping[str, Any], temperature: float) -> Categorical:
        """The Boltzmann policy: probabilities are as exp(Q / temperature), equation 12."""
        mask = fields_of_group(self.group, batch)["avail_actions"] if self.group.avail else None
        return Categorical(q / temperature, mask)


@final
class MFQ(NetworkLearner):
    """Q-networks of all groups of agents.

    Args:
        env: Its agents.
    """

    acting: nn.ModuleList

    def __init__(self, config: MFQConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config = config
        self.groups: tuple[AgentGroup, ...] = env.groups
        self._shared_reward = env.shared_reward
        self.mean_field = MeanField(env.groups, config.neighbours, config.radius)
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how: dict[str, Any] = {**network_options(config, "agent_id"), "shared": config.parameter_sharing}
        self.networks = Networks(device, seed)
        self.online: list[QNetwork] = []
        self.targets: list[QNetwork] = []
        self.trained: list[Trained] = []
        with self.networks.seeded() as generator:
            for group in env.groups:
                label, width = group.name or "agents", self.mean_field.width(group)
                q = QNetwork(group, mean_action=width, generator=generator, **how)
                target = target_of(q)
                self.networks.add(label, nn.ModuleDict({"online": q, "target": target}))
                self.online.append(q)
                self.targets.append(target)
                self.trained.append(self.networks.optimize(label, q, target, config.lr))
        self.acting = nn.ModuleList(self.online)

    def learn(self, memory: Memory, _obs: Arrays | None = None) -> dict[str, float]:
        """One update from a batch of the memory."""
        batch = memory.sample(self.config.batch_size)
        metrics, td_errors = self.update(batch)
        if self.config.per_alpha:
            mean = torch.stack([error.abs().mean(dim=1) for error in td_errors]).mean(dim=0)
            memory.update_priorities(batch, mean.cpu().numpy())
        return {**as_floats(metrics), "samples": self.config.batch_size}

    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, Tensor], list[Tensor]]:
        """One step of all networks; metrics, and temporal-difference errors ``[B, A]`` of every group."""
        config = self.config
        self.networks.count_update()
        rows = to_torch(batch, self.networks.device)
        next_rows = self.mean_field.next_rows(rows, seen_after(self.groups, rows))
        scale = linear(1.0, config.lr_end, config.lr_steps, self.networks.updates * config.update_every)
        metrics, td_errors = dict[str, Tensor](), []
        for index, group in enumerate(self.groups):
            loss, td_error = self.loss(index, rows, next_rows)
            norm = self.trained[index].step(loss, max_grad_norm=config.max_grad_norm, lr_scale=scale)
            self.trained[index].update_target(config.tau)
            metrics |= {group.key("loss"): loss.detach(), group.key("grad_norm"): norm}
            td_errors.append(td_error.detach())
        return metrics, td_errors

    def loss(self, index: int, rows: Mapping[str, Any], next_rows: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """(r + gamma v(s') - Q(s, a, mean a))^2 with v = sum_a pi(a|s', mean a') Q'(s', a, mean a'): equations 8 to 10.

        Also temporal-difference errors ``[B, A]``.
        """
        group, fields = self.groups[index], fields_of_group(self.groups[index], rows)
        with torch.no_grad():
            next_q = self.targets[index](next_rows)
            steps = self.config.learning_starts + self.networks.updates * self.config.update_every
            policy = self.targets[index].policy(next_q, next_rows, self.temperature(steps))
            next_value = (policy.log_probs.exp() * next_q).sum(dim=-1)
            if group.mask and not self._shared_reward:  # who is gone earns nothing more
                next_value = next_value * fields["next_agent_mask"]
            reward = rows["reward"][:, None] if self._shared_reward else fields["reward"]
            td_target = reward + rows["discount"][:, None] * next_value
        q = self.online[index](rows)
        action = fields["action"].long() - int(group.action_space.start)
        td_error = td_target - q.gather(-1, action[..., None])[..., 0]
        alive = None if self._shared_reward else fields.get("agent_mask")
        td_error = td_error if alive is None else td_error * alive
        loss = self._td_loss(td_error)
        if self.config.per_alpha:
            loss = loss * rows["weights"][:, None].float()
        return masked_mean(loss, alive), td_error

    def temperature(self, step: int) -> float:
        """Of the Boltzmann policy after some steps."""
        config = self.config
        return linear(config.temperature_start, config.temperature_end, config.temperature_steps, step)

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> MFQActor:
        """Agents that act with the weights of now."""
        networks = copy.deepcopy(self.acting)
        how: dict[str, Any] = {"explore": explore, "seed": seed, "temperature": self.temperature}
        return MFQActor(networks, self.mean_field, num_envs, self.networks.device, **how)

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agents of every group, by its name."""
        return {network.group.name: network for network in self.online}
