"""DQN: deep Q-learning (Mnih et al. 2015); with all of its options Rainbow (Hessel et al. 2018).

See docs/algorithms/dqn.md.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from relive.agents.checks import check
from relive.agents.one_agent import TransitionLearner, TransitionSettings, observed_space
from relive.agents.policy_modules import BestAction
from relive.agents.q_actor import QActor
from relive.agents.search import Choice, Range, SearchSpace
from relive.agents.settings import EpsilonSettings, NetworkSettings, QSettings, network_options
from relive.envs.interface import AgentGroup, Env
from relive.errors import OptionError
from relive.learn.exploration import greedy
from relive.learn.factories import resolve
from relive.learn.losses import TD_LOSSES
from relive.learn.noisy import draw_noise, without_noise
from relive.learn.polyak import target_of
from relive.learn.q_network import QNetwork
from relive.learn.schedules import linear
from relive.learn.value_distributions import projected, quantile_huber
from relive.memory import Batch
from relive.tensors import TensorBatch

__all__ = ["DQN", "DQNConfig"]


@final
@dataclass(frozen=True)
class DQNConfig(NetworkSettings, QSettings, EpsilonSettings, TransitionSettings):
    """DQN: deep Q-learning; double, dueling, prioritised, noisy, distributional, or all of it (Rainbow)."""

    default_num_envs: ClassVar[int] = 4

    batch_size: int = 64
    update_every: int = 2
    dueling: bool = False
    """Dueling networks: separate streams for value and advantages (Wang et al. 2016)."""
    distribution: Literal["none", "c51", "qr"] = "none"
    """Distributional Q-learning: none, c51 (Bellemare et al. 2017), qr (quantile regression, Dabney et al. 2018)."""
    atoms: int = 51
    """Atoms (c51) or quantiles (qr)."""
    v_min: float = -10.0
    """Lower end of c51's support."""
    v_max: float = 10.0
    """Upper end of c51's support."""
    noisy_sigma: float = 0.0
    """Initial sigma of noisy layers (Fortunato et al. 2018; .5); 0: epsilon-greedy exploration."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of the hidden layers after the encoder; empty: none."""
    encoder: Any = "auto"
    """Encoder of observations: auto (by the space), flat, convolutions (without a layer after them), or
    package.module:function(space)."""

    def __post_init__(self) -> None:
        check(self, layers=0)
        if self.distribution == "c51" and self.v_min >= self.v_max:
            raise OptionError("v_min", f"be below v_max, {self.v_max:g}", self.v_min)
        if self.noisy_sigma and self.network != "mlp":
            remedy = "Noise is of our own layers; put noise of yours into yours."
            raise OptionError("noisy_sigma", "be 0 with a custom network", self.noisy_sigma, remedy)

    @property
    def name(self) -> str:
        """What it is called by."""
        return "dqn"

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """Settings of published code."""
        rainbow = {"per_alpha": 0.5, "dueling": True, "distribution": "c51", "noisy_sigma": 0.5, "n_step": 3}
        images = {"encoder": "convolutions", "hidden": (512,), "frame_stack": 4, "capacity": 1_000_000}
        atari = {**images, "batch_size": 32, "update_every": 4, "tau": 1.0}
        nature = {"double_q": False, "learning_starts": 50_000, "lr": 1e-4, "target_update_interval": 2_500}
        slow = {"learning_starts": 80_000, "lr": 6.25e-5, "eps": 1.5e-4, "target_update_interval": 8_000}
        return {
            "rainbow": rainbow,
            "nature": {**atari, **nature, "epsilon_end": 0.1, "epsilon_steps": 1_000_000},
            "rainbow-atari": {**atari, **rainbow, **slow, "per_beta_steps": 50_000_000},
        }

    @property
    def search_space(self) -> SearchSpace:
        """What is worth searching."""
        more: SearchSpace = {"gamma": Range(0.97, 0.999), "tau": Range(0.002, 0.05, log=True)}
        some: SearchSpace = {
            "n_step": Choice((1, 3, 5)),
            "per_alpha": Choice((0.0, 0.5)),
            "dueling": Choice((False, True)),
        }
        return {"lr": Range(1e-4, 3e-3, log=True), **more, "batch_size": Choice((32, 64, 128)), **some}

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> DQN:
        """A learner of these settings."""
        return DQN(self, env, device=device, seed=seed)


@final
class DQN(TransitionLearner):
    """A Q-network and its target.

    Args:
        env: Its agent.
    """

    config: DQNConfig

    def __init__(self, config: DQNConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.group: AgentGroup = env.groups[0]
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        how = network_options(config, "dueling", "distribution", "atoms", "v_min", "v_max", "noisy_sigma")
        super().__init__(config, device, seed)
        space = observed_space(self.group.obs_space, config.frame_stack)
        with self.networks.seeded() as generator:
            self.online = QNetwork(space, self.group.action_space, generator=generator, **how)
        self.acting, self.target = self.online, target_of(self.online)
        self.networks.add("q", nn.ModuleDict({"online": self.online, "target": self.target}))
        self.trained = self.networks.optimize("q", self.online, self.target, config.lr, config.eps, clip_whole=True)

    def update(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """One step of the network; metrics, and what a row's priority is made of ``[B]``."""
        config = self.config
        rows, how = self._begin(batch)
        if config.noisy_sigma:
            draw_noise(self.online, self.networks.generator)
            draw_noise(self.target, self.networks.generator)
        loss, error, q = self.loss(rows)
        norm = self.trained.step(loss, **how)
        if self.networks.updates % config.target_update_interval == 0:
            self.trained.update_target(config.tau)
        return {"loss": loss.detach(), "grad_norm": norm, "q": q.mean()}, error

    def loss(self, rows: TensorBatch) -> tuple[Tensor, Tensor, Tensor]:
        """The mean of L(r + gamma^n Q'(s', a') - Q(s, a)) over rows, or of what distributions have in its place.

        Also each row's error and Q(s, a), ``[B]``.
        """
        reward, discount = rows["reward"], rows["discount"]
        with torch.no_grad():
            next_outputs = self.target.distribution(rows["next_obs"])
            chooser = self.online(rows["next_obs"]) if self.config.double_q else self.target.mean(next_outputs)
            next_q = _chosen(next_outputs, greedy(chooser, rows.get("next_avail_actions")))
        outputs = _chosen(self.online.outputs(rows["obs"]), rows["action"].long() - self.online.start)
        if self.config.distribution == "none":
            error = reward + discount * next_q.squeeze(1) - outputs.squeeze(1)
            loss = self._td_loss(error)
        elif self.config.distribution == "c51":
            target = projected(next_q, reward, discount, self.target.support)
            loss = error = -(target * outputs.log_softmax(dim=1)).sum(dim=1)
        else:
            loss = error = quantile_huber(outputs, reward[:, None] + discount[:, None] * next_q)
        if self.config.per_alpha:
            loss = loss * rows["weights"].float()
        probabilities = outputs.softmax(dim=1) if self.config.distribution == "c51" else outputs
        return loss.mean(), error.detach(), self.online.mean(probabilities.detach())

    def epsilon(self, step: int) -> float:
        """Share of random actions after some steps."""
        config = self.config
        if config.noisy_sigma:
            return 0.0
        return linear(config.epsilon_start, config.epsilon_end, config.epsilon_steps, step)

    def actor(self, num_envs: int, *, explore: bool, seed: int = 0) -> QActor:
        """An agent that acts with the weights of now."""
        network = copy.deepcopy(self.online)
        without_noise(network)
        how: dict[str, Any] = {"explore": explore, "seed": seed, "epsilon": self.epsilon}
        return QActor(network, num_envs, self.networks.device, frame_stack=self.config.frame_stack, **how)

    def policy_module(self) -> BestAction:
        """The policy alone, as a module of tensors."""
        network = copy.deepcopy(self.online)
        without_noise(network)
        return BestAction(network, self.group, self.config.frame_stack)

    def agent_modules(self) -> dict[str, nn.Module]:
        """What acts for the agent."""
        return {self.group.name: self.online}


def _chosen(values: Tensor, action: Tensor) -> Tensor:
    """Those of actions ``[B]``, among values ``[B, n, atoms]``."""
    return values.gather(1, action[:, None, None].expand(-1, 1, values.shape[2])).squeeze(1)
