"""DQN: deep Q-learning (Mnih et al. 2015); with all of its options Rainbow (Hessel et al. 2018).

See docs/algorithms/dqn.md.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from recollect.agents.checks import check
from recollect.agents.interface import Schedule, Weights
from recollect.agents.one_agent import HINDSIGHT, Replay, observed_space, replay_memory
from recollect.agents.policy_modules import BestAction
from recollect.agents.q_actor import QActor
from recollect.agents.search import Choice, Range, SearchSpace
from recollect.agents.state import Networks, published
from recollect.envs.interface import AgentGroup, Env
from recollect.errors import OptionError
from recollect.learn.encoders import ENCODERS
from recollect.learn.exploration import greedy
from recollect.learn.factories import resolve
from recollect.learn.kernels import ACTIVATIONS
from recollect.learn.losses import TD_LOSSES
from recollect.learn.networks import INITS
from recollect.learn.noisy import draw_noise, without_noise
from recollect.learn.polyak import target_of
from recollect.learn.q_network import QNetwork
from recollect.learn.schedules import linear
from recollect.learn.value_distributions import projected, quantile_huber
from recollect.memory import Memory, Storage
from recollect.tensors import to_torch

__all__ = ["DQN", "DQNConfig"]

_CHOICES = {
    "hindsight": HINDSIGHT,
    "distribution": ("none", "c51", "qr"),
    "activation": tuple(ACTIVATIONS),
    "init": INITS,
}
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("gamma", "per_alpha", "per_beta", "tau", "lr_end", "epsilon_start", "epsilon_end"), (0, 1)),
    **dict.fromkeys(("batch_size", "update_every", "n_step", "lr_steps", "target_every"), (1, math.inf)),
    **dict.fromkeys(("capacity", "learning_starts", "lr", "max_grad_norm", "noisy_sigma", "eps"), (0, math.inf)),
    **dict.fromkeys(("epsilon_steps", "hindsight_k", "per_beta_steps"), (0, math.inf)),
    **dict.fromkeys(("v_min", "v_max"), (-math.inf, math.inf)),
    "atoms": (2, math.inf),
    "frame_stack": (1, 64),
}


@final
@dataclass(frozen=True)
class DQNConfig:
    """DQN: deep Q-learning; double, dueling, prioritised, noisy, distributional, or all of it (Rainbow)."""

    single_agent: ClassVar[bool] = True

    gamma: float = 0.99
    """Discount of a step."""
    batch_size: int = 64
    """Transitions of a batch."""
    capacity: int = 100_000
    """Rows of the replay memory, about."""
    learning_starts: int = 1_000
    """Steps before the first update."""
    update_every: int = 2
    """Steps for each update."""
    n_step: int = 1
    """Steps of reward before the bootstrap."""
    per_alpha: float = 0.0
    """Exponent of prioritised replay; 0 is uniform."""
    per_beta: float = 0.4
    """Exponent of its importance weights at first; it rises to 1."""
    per_beta_steps: int = 100_000
    """Steps over which it does; 0: it stays."""
    hindsight: Literal["none", "future", "final", "episode"] = "none"
    """Whether transitions are also read with goals that were achieved in their episode (Andrychowicz et al. 2017):
    from this step on, at its end, or anywhere."""
    hindsight_k: float = 4.0
    """How many such there are for each with its own goal."""
    double_q: bool = True
    """Whether the online network chooses the action that the target network values (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Whether values and advantages have a network each (Wang et al. 2016)."""
    distribution: Literal["none", "c51", "qr"] = "none"
    """Of returns: none (their mean), c51 (Bellemare et al. 2017), qr (quantiles, Dabney et al. 2018)."""
    atoms: int = 51
    """Values, or quantiles, of a distribution."""
    v_min: float = -10.0
    """Least return that c51 knows."""
    v_max: float = 10.0
    """Largest return that c51 knows."""
    noisy_sigma: float = 0.0
    """Deviation that noisy layers start from (Fortunato et al. 2018; .5); 0: epsilon-greedy exploration."""
    lr: float = 1e-3
    """Learning rate."""
    lr_end: float = 1.0
    """Its multiplier in the end."""
    lr_steps: int = 1_000_000
    """Steps over which it is reached, linearly."""
    eps: float = 1e-8
    """What Adam adds to its divisor."""
    tau: float = 0.01
    """How far the target network goes at an update of it; 1: all the way."""
    target_every: int = 1
    """Updates for an update of the target network."""
    epsilon_start: float = 1.0
    """Share of random actions at first; none with noisy layers."""
    epsilon_end: float = 0.05
    """Share of random actions later."""
    epsilon_steps: int = 10_000
    """Steps over which it falls."""
    max_grad_norm: float = 10.0
    """Clip the gradient norm; 0: do not."""
    td_loss: Any = "huber"
    """Of temporal-difference errors: mse, huber, or package.module:function(td_error)."""
    frame_stack: int = 1
    """Frames that networks see at once."""
    hidden: tuple[int, ...] = (128, 128)
    """Units of the hidden layers after the encoder; empty: none."""
    activation: Literal["relu", "leaky_relu", "tanh", "elu", "gelu", "silu"] = "relu"
    """After each hidden layer."""
    init: Literal["uniform", "xavier", "orthogonal"] = "uniform"
    """Initialisation of the weights."""
    encoder: Any = "auto"
    """Of observations, before the hidden layers: auto (by the space), flat, convolutions (without a layer after them),
    or package.module:function(space)."""
    network: Any = "mlp"
    """After the encoder: mlp, or package.module:function(inputs, outputs)."""

    def __post_init__(self) -> None:
        check(self, _CHOICES, _RANGES, above_zero=("lr", "lr_end", "tau", "eps"))
        if any(units < 1 for units in self.hidden):
            raise OptionError("hidden", "be units of layers", self.hidden)
        if self.distribution == "c51" and self.v_min >= self.v_max:
            raise OptionError("v_min", f"be below v_max, {self.v_max:g}", self.v_min)
        if self.noisy_sigma and self.network != "mlp":
            remedy = "Noise is of our own layers; put noise of yours into yours."
            raise OptionError("noisy_sigma", "be 0 with a network of one's own", self.noisy_sigma, remedy)

    @property
    def name(self) -> str:
        """What it is called by."""
        return "dqn"

    @property
    def default_num_envs(self) -> int:
        """Vectorised environments that suit it."""
        return 4

    @property
    def presets(self) -> dict[str, dict[str, Any]]:
        """Settings of published code."""
        rainbow = {"per_alpha": 0.5, "dueling": True, "distribution": "c51", "noisy_sigma": 0.5, "n_step": 3}
        images = {"encoder": "convolutions", "hidden": (512,), "frame_stack": 4, "capacity": 1_000_000}
        atari = {**images, "batch_size": 32, "update_every": 4, "tau": 1.0}
        nature = {"double_q": False, "learning_starts": 50_000, "lr": 1e-4, "target_every": 2_500}
        slow = {"learning_starts": 80_000, "lr": 6.25e-5, "eps": 1.5e-4, "target_every": 8_000}
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

    def schedule(self, _num_envs: int) -> Schedule:
        """When updates are due."""
        return Schedule(self.update_every, first=self.learning_starts)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Memory:
        """The replay memory: transitions of n steps."""
        return replay_memory(self, env, lanes=lanes, seed=seed, storage=storage)

    def learner(self, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> DQN:
        """A learner of these settings."""
        return DQN(self, env, device=device, seed=seed)


@final
class DQN:
    """A Q-network and its target.

    Args:
        env: Its agent.
    """

    def __init__(self, config: DQNConfig, env: Env, *, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.config, self.updates, self._version = config, 0, 0
        self.group: AgentGroup = env.groups[0]
        self._td_loss = resolve("td_loss", config.td_loss, TD_LOSSES)
        names = ("hidden", "activation", "init", "dueling", "distribution", "atoms", "v_min", "v_max", "noisy_sigma")
        how: dict[str, Any] = {
            **{name: getattr(config, name) for name in names},
            "encoder": resolve("encoder", config.encoder, ENCODERS),
            "network": resolve("network", config.network, {"mlp": None}),
        }
        self._replay = Replay(config, env, seed)
        self.networks = Networks(device, seed)
        space = observed_space(self.group.obs_space, config.frame_stack)
        with self.networks.seeded() as generator:
            self.online = QNetwork(space, self.group.action_space, generator=generator, **how)
        self.target = target_of(self.online)
        self.networks.add("q", nn.ModuleDict({"online": self.online, "target": self.target}))
        self.trained = self.networks.optimize("q", self.online, self.target, config.lr, config.eps, clip_whole=True)

    def learn(self, memory: Memory, _obs: Mapping[str, Any] | None = None) -> dict[str, float]:
        """One update from a batch of the memory."""
        batch = self._replay.sample(memory)
        metrics, error = self.update(batch)
        if self.config.per_alpha:
            memory.update_priorities(batch, error.abs().cpu().numpy())
        values = torch.stack(list(metrics.values())).tolist()
        return {**dict(zip(metrics, values, strict=True)), "samples": self.config.batch_size}

    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, Tensor], Tensor]:
        """One step of the network; metrics, and what a row's priority is made of ``[B]``."""
        config = self.config
        self.updates, self._version = self.updates + 1, self._version + 1
        if config.noisy_sigma:
            draw_noise(self.online, self.networks.generator)
            draw_noise(self.target, self.networks.generator)
        loss, error, q = self.loss(to_torch(dict(batch), self.networks.device))
        scale = linear(1.0, config.lr_end, config.lr_steps, self.updates * config.update_every)
        norm = self.trained.step(loss, max_grad_norm=config.max_grad_norm, lr_scale=scale)
        if self.updates % config.target_every == 0:
            self.trained.update_target(config.tau)
        return {"loss": loss.detach(), "grad_norm": norm, "q": q.mean()}, error

    def loss(self, rows: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        """The mean of L(r + gamma^n Q'(s', a') - Q(s, a)) over rows, or of what distributions have in its place.

        Also each row's error and Q(s, a), ``[B]``.
        """
        reward, discount = rows["reward"], rows["discount"]
        with torch.no_grad():
            ahead = self.target.distribution(rows["next_obs"])
            chooser = self.online(rows["next_obs"]) if self.config.double_q else self.target.mean(ahead)
            ahead = _chosen(ahead, greedy(chooser, rows.get("next_avail_actions")))
        outputs = _chosen(self.online.outputs(rows["obs"]), rows["action"].long() - self.online.start)
        if self.config.distribution == "none":
            error = reward + discount * ahead[:, 0] - outputs[:, 0]
            loss = self._td_loss(error)
        elif self.config.distribution == "c51":
            target = projected(ahead, reward, discount, self.target.support)
            loss = error = -(target * outputs.log_softmax(dim=1)).sum(dim=1)
        else:
            loss = error = quantile_huber(outputs, reward[:, None] + discount[:, None] * ahead)
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

    def weights(self) -> Weights:
        """The network."""
        return published(self._version, self.online)

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

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that learning depends on."""
        return self.networks.state_dict() | self._replay.state_dict() | {"updates": torch.tensor(self.updates)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.networks.load_state_dict(state)
        self._replay.load_state_dict(state)
        self.updates, self._version = int(state["updates"]), self._version + 1


def _chosen(values: Tensor, action: Tensor) -> Tensor:
    """Those of actions ``[B]``, among values ``[B, n, atoms]``."""
    return values.gather(1, action[:, None, None].expand(-1, 1, values.shape[2]))[:, 0]
