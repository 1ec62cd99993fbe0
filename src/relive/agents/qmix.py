"""QMIX: monotonic value factorisation (Rashid et al. 2018), from whole episodes.

With other mixers QPLEX (Wang et al. 2021), VDN (their sum, Sunehag et al. 2018) and independent Q-learning.
See docs/algorithms/qmix.md.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from relive.agents.advice import one_team
from relive.agents.checks import AT_LEAST_0, POSITIVE, UNIT, check
from relive.agents.interface import Schedule
from relive.agents.mixing import JointValues, Mixing
from relive.agents.policy_modules import GreedyPolicy
from relive.agents.presets import qmix_presets
from relive.agents.q_networks import QNetworks
from relive.agents.qmix_actor import QMIXActor
from relive.agents.reward_stats import RewardStats
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import EpsilonSettings
from relive.agents.state import NetworkLearner, Networks, as_floats
from relive.envs.interface import Env
from relive.errors import OptionError
from relive.learn.encoders import ENCODERS
from relive.learn.exploration import greedy
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES
from relive.learn.optimizers import make_optimizer, set_lr
from relive.learn.polyak import Polyak, target_of
from relive.learn.returns import n_step_return, td_lambda_return
from relive.learn.schedules import linear
from relive.learn.sequences import PackedEpisodes, pack_sequences
from relive.memory import Episodes, Memory, Prioritized, Storage, Uniform
from relive.tensors import to_torch
from relive.types import Arrays

__all__ = ["QMIX", "QMIXConfig"]

_NAMES = {"qmix": "qmix", "qplex": "qplex", "vdn": "vdn", "none": "iql"}
_SUMMARIES = {
    "qmix": "QMIX: monotonic value factorisation by a mixing network; whole episodes.",
    "qplex": "QPLEX: duplex dueling value factorisation; whole episodes.",
    "vdn": "VDN: value decomposition, a sum of the agents' Q-values; whole episodes.",
    "none": "IQL: independent Q-learning; whole episodes.",
}
_LONG = 1000  # steps that an episode is taken to have if nobody knows


@final
@dataclass(frozen=True)
class QMIXConfig(EpsilonSettings):
    """Settings of QMIX, QPLEX, VDN and IQL."""

    default_num_envs: ClassVar[int] = 32

    mixer: Literal["qmix", "qplex", "vdn", "none"] = "qmix"
    """Mixer of the agents' values: qmix, qplex, vdn; none: independent Q-learning (IQL)."""
    gamma: float = 0.95
    """Discount factor gamma."""
    batch_size: int = 32
    """Episodes per batch."""
    buffer_size: int = 5000
    """Episodes of the replay memory; rounded to whole lanes."""
    learning_starts: int = 32
    """Episodes before the first update."""
    update_every: float = 1.0
    """Episodes per update; below 1: several updates per episode."""
    target_update_interval: int = 200
    """Episodes between hard copies to the target networks."""
    tau: float = 0.0
    """Polyak factor tau of the targets, in place of hard copies; 0: hard copies."""
    double_q: bool = True
    """Double Q-learning: the online networks choose the next actions, the targets evaluate them."""
    td_lambda: float = 0.6
    """Lambda of TD(lambda) targets; 0: one step. Only with n_step 1."""
    n_step: int = 1
    """Rewards n summed before the bootstrap; above 1: in place of td_lambda."""
    bootstrap_on_truncation: bool = True
    """Bootstrap from the final observation where an episode was truncated."""
    clip_targets: bool = True
    """Clip next values to the range of returns that the rewards seen so far allow."""
    per_alpha: float = 0.0
    """Exponent alpha of prioritised replay (PER) of episodes; 0 is uniform."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Optimiser."""
    lr: float = 1e-3
    """Learning rate."""
    lr_end: float = 1.0
    """Final multiplier of the learning rate; linear schedule."""
    lr_episodes: int = 40_000
    """Episodes over which the multiplier is reached."""
    eps: float = 0.0
    """The optimiser's epsilon; 0: 1e-8 for adam, 1e-5 for rmsprop."""
    max_grad_norm: float = 10.0
    """Maximum joint gradient norm; 0: no clipping."""
    recurrent: bool = True
    """Recurrent agents (GRU)."""
    hidden: int = 64
    """Units of the agents' networks."""
    encoder: Any = "auto"
    """Encoder of observations: auto (by the space), flat, or package.module:function(space)."""
    network: Any = "auto"
    """Agent networks: auto (by recurrent), or package.module:function(inputs, outputs)."""
    td_loss: Any = "mse"
    """Loss of temporal-difference errors: mse, huber, or package.module:function(td_error)."""
    parameter_sharing: bool = True
    """One network per group of agents, in place of one per agent."""
    agent_id: bool = True
    """Append a one-hot agent id to observations where parameters are shared."""
    last_action: bool = True
    """Append each agent's last action to its observation."""
    mixing_units: int = 32
    """Units of QMIX's mixer."""
    hypernet_units: int = 64
    """Hidden units of the mixer's hypernetworks; 0: no hidden layer (QMIX alone)."""
    epsilon_steps: int = 50_000
    reward: Literal["auto", "sum", "mean", "own"] = "auto"
    """Reward that is learned from, where agents have their own; auto: own for IQL, else the sum."""
    standardize_reward: bool = False
    """Standardise rewards by their running mean and deviation."""

    def __post_init__(self) -> None:
        check(self, update_every=POSITIVE, tau=UNIT, eps=AT_LEAST_0)
        if self.batch_size > self.buffer_size:
            raise OptionError("batch_size", f"be at most the buffer_size of {self.buffer_size}", self.batch_size)
        if self.mixer == "qplex" and not self.hypernet_units:
            raise OptionError("hypernet_units", "be at least 1 for qplex", self.hypernet_units)

    @property
    def name(self) -> str:
        """What it is called by: qmix, qplex, vdn or iql."""
        return _NAMES[self.mixer]

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        return _SUMMARIES[self.mixer]

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """What published code uses, by its name."""
        return qmix_presets(independent=self.mixer == "none")

    @property
    def own_reward(self) -> bool:
        """Whether agents learn from rewards of their own where they have them."""
        return self.reward == "own" or (self.reward == "auto" and self.mixer == "none")

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        return {
            "lr": Range(2e-4, 3e-3, log=True),
            "gamma": Range(0.9, 0.99),
            "td_lambda": Range(0.0, 0.9),
            "hidden": Choice((64, 128)),
            "batch_size": Choice((16, 32, 64)),
            "update_every": Choice((0.5, 1.0, 2.0)),
        }

    def schedule(self, _num_envs: int) -> Schedule:
        """When updates are due."""
        return Schedule(self.update_every, "episodes", first=self.learning_starts)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Memory:
        """The replay memory: rows for the longest episodes, of which only those that happen take room."""
        rows = (-(-self.buffer_size // lanes) + 2) * ((env.max_episode_steps or _LONG) + 1) * lanes
        sampler = Prioritized(alpha=self.per_alpha) if self.per_alpha else Uniform()
        parts: dict[str, Any] = {"sampler": sampler, "window": Episodes(packed=True), "seed": seed, "storage": storage}
        try:
            return Memory(env.schema, capacity=rows, lanes=lanes, max_episodes=self.buffer_size, **parts)
        except OptionError as error:
            remedy = f"Keep fewer episodes (--buffer-size), or have fewer environments (--num-envs). {error}"
            raise OptionError("buffer_size", "fit in memory", self.buffer_size, remedy) from None

    def advice(self, env: Env, metrics: Mapping[str, float]) -> str:
        """What someone who mixes the values of opponents should know; nothing where all get the same."""
        if self.mixer == "none":
            return ""
        return one_team(f"{self.name} learns the sum", env, metrics, "iql or maddpg")

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> QMIX:
        """A learner of these settings."""
        return QMIX(self, env, device=device, seed=seed)


@final
class QMIX(NetworkLearner):
    """Agents' networks and what mixes their values.

    Args:
        env: Its agents, its state if it has one.
    """

    acting: nn.ModuleList

    def __init__(
        self,
        config: QMIXConfig,
        env: Env,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        self.config = config
        self._groups, self._shared_reward = env.groups, env.shared_reward
        self._names = [group.name or "agents" for group in env.groups]
        own = config.own_reward and not env.shared_reward
        if config.mixer != "none" and own:
            raise OptionError("reward", "be sum or mean where values are mixed", "'own'", "Use --mixer none for IQL.")
        encoder = resolve("encoder", config.encoder, ENCODERS)
        how: dict[str, Any] = {
            **{name: getattr(config, name) for name in ("hidden", "recurrent", "last_action", "agent_id")},
            "shared": config.parameter_sharing,
            "encoder": encoder,
            "network": resolve("network", config.network, {"auto": None}),
            "masked": own or config.mixer != "none",  # alone, the dead still get what the living earn
        }
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        self.networks = Networks(device, seed)
        with self.networks.seeded() as generator:
            made = [QNetworks(group, generator=generator, **how) for group in env.groups]
            online = nn.ModuleDict(dict(zip(self._names, made, strict=True)))
            if config.mixer in ("qmix", "qplex"):
                sizes = {"units": config.mixing_units, "hypernet_units": config.hypernet_units}
                plex = config.mixer == "qplex"
                online["mixer"] = Mixing(env, encoder, plex=plex, **sizes, generator=generator)
        self._agents, agents = made, sum(map(len, env.groups))
        self.online, self.target, self.acting = online, target_of(online), nn.ModuleList(made)
        self.reward_stats = RewardStats(agents if own else 1, standardize=config.standardize_reward)
        for name, module in (("online", self.online), ("target", self.target), ("reward", self.reward_stats)):
            self.networks.add(name, module)
        self._parameters, self._polyak = list(online.parameters()), Polyak(self.target, online)
        self.optimizer = make_optimizer(config.optimizer, self._parameters, config.lr, config.eps)
        self.networks.optimizers["online"] = self.optimizer

    def learn(self, memory: Memory, _obs: Arrays | None = None) -> dict[str, float]:
        """One update from a batch of the memory."""
        batch = memory.sample(self.config.batch_size)
        metrics, td_error = self.update(batch)
        if self.config.per_alpha:
            memory.update_priorities(batch, td_error.cpu().numpy())
        return {**as_floats(metrics), "samples": int(np.sum(batch["lengths"]))}

    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, Tensor], Tensor]:
        """One step of all networks from packed episodes; metrics, and each episode's mean absolute error ``[B]``."""
        config = self.config
        packed = pack_sequences(np.asarray(batch["lengths"]))
        loss, td_error, metrics = self.loss(batch, packed)
        lr_scale = linear(1.0, config.lr_end, config.lr_episodes, self.networks.updates * config.update_every)
        set_lr(self.optimizer, config.lr * lr_scale)
        for parameter in self._parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        grad_norm = clip_grad_norm_(self._parameters, config.max_grad_norm or math.inf)
        self.optimizer.step()
        self.networks.count_update()
        self._update_targets()
        errors = td_error.new_zeros(len(batch["lengths"])).index_add_(0, self._index(packed.episode), td_error)
        return {**metrics, "grad_norm": grad_norm}, errors / self._index(batch["lengths"])

    def loss(self, batch: Mapping[str, Any], packed: PackedEpisodes) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """(Q_tot - y)^2 with y = r + gamma max Q_tot' by the target networks (equation 6), or with longer returns.

        Also absolute errors of steps ``[S]``, and metrics.
        """
        config, rows = self.config, to_torch(batch, self.networks.device)
        data = [network.read(rows, batch, packed) for network in self._agents]
        before, after, steps = map(self._index, (packed.before, packed.after, packed.steps))
        q = [self.online[name](own) for name, own in zip(self._names, data, strict=True)]
        chosen_q = [own.chosen_q(mine, before) for mine, own in zip(q, data, strict=True)]
        joint = self._joint(chosen_q, [own.action for own in data], q, data, packed, packed.before)
        q_tot = self._mix(self.online, joint, rows)
        with torch.no_grad():
            target_q = [self.target[name](own) for name, own in zip(self._names, data, strict=True)]
            chooser = q if config.double_q else target_q
            best = [greedy(mine, own.action_mask) for mine, own in zip(chooser, data, strict=True)]
            found = zip(target_q, best, data, strict=True)
            next_q = [own.q_of(theirs, action).index_select(0, after) for theirs, action, own in found]
            joint = self._joint(next_q, [a.index_select(0, after) for a in best], target_q, data, packed, packed.after)
            next_q_tot = self._mix(self.target, joint, rows)
            ends = rows["terminated"] if config.bootstrap_on_truncation else rows["terminated"] | rows["truncated"]
            ends, mask = ends.index_select(0, steps), torch.ones_like(q_tot)
            if config.mixer == "none":  # each by itself, while it lives
                mask, next_mask = (torch.cat([own.alive(at) for own in data], dim=1) for at in (before, after))
                ends = ends[:, None] | (next_mask == 0)
            reward = self._reward(rows, steps)
            self.reward_stats.update(reward, mask)
            if config.clip_targets:
                next_q_tot = next_q_tot.clamp(*self.reward_stats.bounds(config.gamma))
            td_target = self._td_target(self.reward_stats.standardized(reward), next_q_tot, ends, packed)
        td_error = (td_target - q_tot) * mask
        weights = rows["weights"].float().index_select(0, self._index(packed.episode))
        weights = weights if td_error.dim() == 1 else weights[:, None]
        loss = (weights * self._td_loss(td_error)).sum() / mask.sum().clamp(min=1)
        error = td_error.detach().abs()
        error = error if error.dim() == 1 else error.sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return loss, error, {"loss": loss.detach(), "q": (q_tot.detach() * mask).sum() / mask.sum().clamp(min=1)}

    def _joint(
        self, chosen: list[Tensor], actions: list[Tensor], q: list[Tensor], data: Any, packed: PackedEpisodes, at: Any
    ) -> JointValues:
        """What is mixed at some observations ``[S]``: values of actions ``[S, A]``, of values ``[R, A, n]``."""
        values = JointValues(torch.cat(chosen, dim=1), self._index(packed.obs[at]))
        if self.config.mixer == "qplex":
            best = [own.q_of(mine, greedy(mine, own.action_mask)) for mine, own in zip(q, data, strict=True)]
            values.best_q = torch.cat(best, dim=1).index_select(0, self._index(at))
            one_hot = [nn.functional.one_hot(a, mine.shape[2]).flatten(1) for a, mine in zip(actions, q, strict=True)]
            values.action = torch.cat(one_hot, dim=1).float()
        return values

    def _mix(self, networks: nn.ModuleDict, values: JointValues, batch: Mapping[str, Any]) -> Tensor:
        """Q_tot ``[S]`` of agents' values ``[S, A]``; their own values where none is mixed."""
        if self.config.mixer == "none":
            return values.q
        return values.q.sum(dim=1) if self.config.mixer == "vdn" else networks["mixer"](values, batch)

    def _td_target(self, reward: Tensor, next_q: Tensor, ends: Tensor, packed: PackedEpisodes) -> Tensor:
        """What values should be, ``[S]`` or ``[S, A]``."""
        config = self.config
        reward = reward[:, None].expand_as(next_q) if reward.dim() < next_q.dim() else reward
        if config.n_step > 1:
            return n_step_return(packed, reward, next_q, ends, gamma=config.gamma, n=config.n_step)
        if config.td_lambda:
            return td_lambda_return(packed, reward, next_q, ends, gamma=config.gamma, lam=config.td_lambda)
        return reward + config.gamma * next_q * ~ends

    def _reward(self, rows: Mapping[str, Any], steps: Tensor) -> Tensor:
        """The reward of all ``[S]``, or each agent's own ``[S, A]``."""
        if self._shared_reward:
            return rows["reward"].index_select(0, steps)
        each = [rows[group.name] if group.name else rows for group in self._groups]
        every = torch.cat([fields["reward"].index_select(0, steps) for fields in each], dim=1)
        if self.config.own_reward:
            return every
        return every.mean(dim=1) if self.config.reward == "mean" else every.sum(dim=1)

    def _update_targets(self) -> None:
        """A soft update, or from time to time a hard one."""
        config = self.config
        first, every = max(config.learning_starts, 1), config.target_update_interval
        then, now = (
            (first + n * config.update_every) // every for n in (self.networks.updates - 2, self.networks.updates - 1)
        )
        if config.tau or now > then:
            self._polyak.update(config.tau or 1.0)

    def _index(self, places: Any) -> Tensor:
        return torch.as_tensor(places, device=self.networks.device)

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> QMIXActor:
        """Agents that act with the weights of now."""
        networks = copy.deepcopy(self.acting)
        return QMIXActor(self.config, networks, num_envs, self.networks.device, explore=explore, seed=seed)

    def policy_module(self) -> GreedyPolicy:
        """The agents' networks alone, as a function of tensors; a copy."""
        return GreedyPolicy(list(copy.deepcopy(self.acting)))  # type: ignore[arg-type]

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agents of every group, by its name."""
        return {group.group.name: group for group in self._agents}
