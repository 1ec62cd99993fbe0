"""R2D2: recurrent Q-learning from prioritised sequences with stored states (Kapturowski et al. 2019).

With uniform sequences from an empty state DRQN (Hausknecht and Stone 2015). See docs/algorithms/r2d2.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor, nn

from relive.agents.checks import check
from relive.agents.interface import Schedule
from relive.agents.one_agent import observed_space
from relive.agents.policy_modules import BestActionOfState
from relive.agents.recurrent_q import RecurrentQ, RecurrentQActor
from relive.agents.replay import sampler_of
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import EpsilonSettings, QSettings
from relive.agents.state import NetworkLearner, Networks, as_floats
from relive.envs.interface import Env
from relive.learn.agent_networks import RNN, Packed, state_size
from relive.learn.encoders import ENCODERS
from relive.learn.exploration import greedy
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES, masked_mean, rescaled, rescaled_inverse
from relive.learn.polyak import target_of
from relive.learn.schedules import linear
from relive.learn.sequences import Spans, pack_spans
from relive.memory import Memory, Sequence, Storage
from relive.schema import Field
from relive.tensors import map_tensors, to_torch
from relive.types import Arrays

__all__ = ["R2D2", "R2D2Config"]


@final
@dataclass(frozen=True)
class R2D2Config(QSettings, EpsilonSettings):
    """Settings of R2D2 and DRQN."""

    default_num_envs: ClassVar[int] = 8
    single_agent: ClassVar[bool] = True

    batch_size: int = 32
    """Sequences per batch."""
    length: int = 20
    """Steps of a sequence that are learned from."""
    burn_in: int = 10
    """Steps before them that only bring the recurrent state up to date."""
    stored_state: bool = True
    """Begin sequences from the recurrent state that the actor stored; otherwise from zeros."""
    update_every: int = 4
    n_step: int = 3
    per_alpha: float = 0.6
    priority_eta: float = 0.9
    """Eta of sequence priorities: eta max|td_error| + (1 - eta) mean|td_error|."""
    rescale: bool = True
    """Value rescaling h(x) = sgn(x) (sqrt(|x| + 1) - 1) + .001 x."""
    hidden: int = 64
    """Units of the layer before the recurrent one, and of that."""
    rnn: RNN = "gru"
    """Recurrent layer: gru, or lstm (by torch alone)."""
    encoder: Any = "auto"
    """Encoder of observations: auto (by the space), flat, convolutions, or package.module:function(space)."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """What it is called by: r2d2 or drqn."""
        return "r2d2" if self.stored_state else "drqn"

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        if self.stored_state:
            return "R2D2: recurrent Q-learning from prioritised sequences with stored states."
        return "DRQN: recurrent Q-learning from sequences."

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """Settings of published code."""
        if not self.stored_state:
            return {}
        paper = {"gamma": 0.997, "length": 80, "burn_in": 40, "n_step": 5, "per_alpha": 0.9, "per_beta": 0.6}
        more: dict[str, Any] = {"batch_size": 64, "lr": 1e-4, "eps": 1e-3, "tau": 1.0, "target_update_interval": 2_500}
        more |= {"hidden": 512, "rnn": "lstm"}
        return {"paper": {**paper, **more, "capacity": 4_000_000, "per_beta_steps": 0}}

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        more: SearchSpace = {"gamma": Range(0.97, 0.999), "tau": Range(0.002, 0.05, log=True)}
        more |= {"length": Choice((10, 20, 40)), "burn_in": Choice((0, 10, 20)), "hidden": Choice((64, 128))}
        return {"lr": Range(1e-4, 3e-3, log=True), **more, "n_step": Choice((1, 3, 5))}

    def schedule(self, _num_envs: int) -> Schedule:
        """When updates are due."""
        return Schedule(self.update_every, first=self.learning_starts)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Memory:
        """The replay memory: sequences, and the states that they begin from."""
        state = {"q_state": Field((state_size(self.rnn, self.hidden),))} if self.stored_state else {}
        window = Sequence(self.length, burn_in=self.burn_in, start_fields=tuple(state), gamma=self.gamma)
        rows = max(self.capacity // lanes, 2 * (self.length + self.burn_in + self.frame_stack) + 2)
        parts: dict[str, Any] = {"sampler": sampler_of(self), "window": window, "storage": storage}
        if self.frame_stack > 1:
            parts["stack"] = {"obs": self.frame_stack}
        return Memory(env.schema.with_fields(**state), capacity=rows * lanes, lanes=lanes, seed=seed, **parts)

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> R2D2:
        """A learner of these settings."""
        return R2D2(self, env, device=device, seed=seed)


@final
class R2D2(NetworkLearner):
    """A recurrent Q-network and its target.

    Args:
        env: Its agent.
    """

    def __init__(self, config: R2D2Config, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config = config
        self.group = env.groups[0]
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        encoder = resolve("encoder", config.encoder, ENCODERS)
        space = observed_space(self.group.obs_space, config.frame_stack)
        self.networks = Networks(device, seed)
        with self.networks.seeded() as generator:
            how: dict[str, Any] = {"units": config.hidden, "rnn": config.rnn, "encoder": encoder}
            self.online = RecurrentQ(space, self.group.action_space, generator=generator, **how)
        self.target = target_of(self.online)
        self.acting = self.online
        self.networks.add("q", nn.ModuleDict({"online": self.online, "target": self.target}))
        self.trained = self.networks.optimize("q", self.online, self.target, config.lr, config.eps, clip_whole=True)

    def learn(self, memory: Memory, _obs: Arrays | None = None) -> dict[str, float]:
        """One update from a batch of the memory."""
        batch = memory.sample(self.config.batch_size)
        metrics, priority = self.update(batch)
        if self.config.per_alpha:
            memory.update_priorities(batch, priority.cpu().numpy())
        return {**as_floats(metrics), "samples": int(batch["lengths"].sum())}

    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, Tensor], Tensor]:
        """One step of the network; metrics, and priorities of the sequences ``[B]``."""
        config = self.config
        self.networks.count_update()
        td_error, mask, q = self.td_error(batch)
        loss = self._td_loss(td_error)
        if config.per_alpha:
            loss = loss * torch.as_tensor(batch["weights"], dtype=torch.float32, device=q.device)[:, None]
        loss = masked_mean(loss, mask)
        scale = linear(1.0, config.lr_end, config.lr_steps, self.networks.updates * config.update_every)
        norm = self.trained.step(loss, max_grad_norm=config.max_grad_norm, lr_scale=scale)
        if self.networks.updates % config.target_update_interval == 0:
            self.trained.update_target(config.tau)
        size = td_error.detach().abs() * mask
        mean, eta = size.sum(dim=1) / mask.sum(dim=1), config.priority_eta
        metrics = {"loss": loss.detach(), "grad_norm": norm, "q": masked_mean(q.detach(), mask)}
        return metrics, eta * size.amax(dim=1) + (1 - eta) * mean

    def td_error(self, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """h(r_t + ... + gamma^n h^-1(Q'(s_t+n, a*))) - Q(s_t, a_t) of steps ``[B, L]``; which of them count, and Q."""
        config, skipped = self.config, self.config.burn_in
        rows = to_torch(batch, self.networks.device)
        online, target = self._unrolled(batch, rows, self.online, self.target)
        reward, discount, mask = (rows[name][:, skipped:] for name in ("reward", "discount", "mask"))
        action = rows["action"][:, skipped:].long() - self.online.start
        q = online[:, :-1].gather(2, (action * mask)[..., None]).squeeze(-1)
        with torch.no_grad():
            chooser = online if config.double_q else target
            avail = rows["avail_actions"][:, skipped + 1 :] if self.group.avail else None
            best = greedy(chooser[:, 1:], avail)
            value = target[:, 1:].gather(2, best[..., None]).squeeze(-1)
            value = rescaled_inverse(value) if config.rescale else value
            shorter = reward + discount * value
            returns = shorter
            for _ in range(config.n_step - 1):  # one step more each time, where there is one
                longer = reward[:, :-1] + discount[:, :-1] * returns[:, 1:]
                returns = torch.cat([torch.where(mask[:, 1:], longer, shorter[:, :-1]), shorter[:, -1:]], dim=1)
            returns = rescaled(returns) if config.rescale else returns
        return (returns - q) * mask, mask, q

    def _unrolled(self, batch: Mapping[str, Any], rows: Mapping[str, Any], *networks: RecurrentQ) -> list[Tensor]:
        """Q ``[B, L + 1, n]`` of what was seen before and after the steps to learn from, by each network."""
        skipped, starts, lengths = self.config.burn_in, batch["starts"], batch["lengths"]
        width = starts.shape[1] + 1
        begun = starts[:, : skipped + 1]
        first = np.where(begun.any(axis=1), begun.argmax(axis=1), 0)  # nothing is before an episode's first step
        start = torch.zeros(len(first), self.online.state_size, device=self.networks.device)
        if self.config.stored_state:
            carried = torch.from_numpy(~begun.any(axis=1)).to(start.device)
            start = rows["q_state"] * carried[:, None]
        burn_in = _Span(pack_spans(first, skipped - first, width), rows["obs"], start.device)
        learned = _Span(pack_spans(np.full_like(first, skipped), lengths + 1, width), rows["obs"], start.device)
        found = []
        for network in networks:
            with torch.no_grad():
                _, state = burn_in.run(network, start)
            q, _ = learned.run(network, state)
            whole = q.new_zeros(len(first) * width, q.shape[1]).index_copy(0, learned.rows, q)
            found.append(whole.view(len(first), width, -1)[:, skipped:])
        return found

    def epsilon(self, step: int) -> float:
        """Share of random actions after some steps."""
        config = self.config
        return linear(config.epsilon_start, config.epsilon_end, config.epsilon_steps, step)

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> RecurrentQActor:
        """An agent that acts with the weights of now."""
        how: dict[str, Any] = {"explore": explore, "seed": seed, "epsilon": self.epsilon}
        how |= {"frame_stack": self.config.frame_stack, "stored_state": self.config.stored_state}
        return RecurrentQActor(copy.deepcopy(self.online), num_envs, self.networks.device, **how)

    def policy_module(self) -> BestActionOfState:
        """The policy alone, as a module of tensors."""
        return BestActionOfState(copy.deepcopy(self.online), self.group, self.config.frame_stack)

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agent."""
        return {self.group.name: self.online}


@final
class _Span:
    """Rows of sequences ``[B, T]`` that follow each other, with what was seen in them.

    Args:
        obs: Of all rows, ``[B, T, ...]``.
    """

    def __init__(self, spans: Spans, obs: Any, device: torch.device) -> None:
        self.rows = torch.from_numpy(spans.rows).to(device)
        """Where they are among ``[B * T]``."""
        self._sequence = torch.from_numpy(spans.sequence).to(device)
        self._batch_sizes: list[int] = spans.batch_sizes.tolist()
        self._obs = map_tensors(lambda x: x.flatten(0, 1).index_select(0, self.rows), obs)

    def run(self, network: RecurrentQ, state: Tensor) -> tuple[Tensor, Tensor]:
        """Q of these rows, from the states ``[B, size]`` before them, and the states after them."""
        if not self._batch_sizes:
            return state.new_zeros(0, network.actions), state
        q, last = network(self._obs, Packed(self._batch_sizes, state.index_select(0, self._sequence)))
        return q, state.index_copy(0, self._sequence, last)
