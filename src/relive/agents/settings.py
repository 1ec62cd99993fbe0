"""Settings that several algorithms have, in groups.

An algorithm's settings are a dataclass that inherits some of these groups, with defaults of its own where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from relive.learn.agent_networks import RNN, state_size
from relive.learn.encoders import ENCODERS
from relive.learn.factories import resolve

__all__ = [
    "EpsilonSettings",
    "HindsightSettings",
    "NetworkSettings",
    "OptimizerSettings",
    "PERSettings",
    "PPOSettings",
    "QSettings",
    "ReplaySettings",
    "RolloutSettings",
    "TemperatureSettings",
    "network_options",
]


@dataclass(frozen=True)
class ReplaySettings:
    """Off-policy learning from a replay memory."""

    gamma: float = 0.99
    """Discount factor gamma."""
    batch_size: int = 256
    """Transitions per batch."""
    capacity: int = 1_000_000
    """Rows of the replay memory; rounded to whole lanes."""
    learning_starts: int = 1_000
    """Environment steps before the first update."""
    update_every: float = 1
    """Environment steps per update."""
    n_step: int = 1
    """Rewards n summed before the bootstrap."""
    per_alpha: float = 0.0
    """Exponent alpha of prioritised replay (PER); 0 is uniform."""


@dataclass(frozen=True)
class PERSettings:
    """Importance weights of prioritised replay."""

    per_beta: float = 0.4
    """Exponent beta of PER's importance weights at the start; annealed linearly to 1."""
    per_beta_steps: int = 1_000_000
    """Environment steps over which beta is annealed; 0: beta is constant."""


@dataclass(frozen=True)
class HindsightSettings:
    """Goals relabelled in hindsight (HER)."""

    hindsight: Literal["none", "future", "final", "episode"] = "none"
    """Hindsight experience replay (Andrychowicz et al. 2017): relabel with goals achieved later in the episode
    (future), at its end (final), or anywhere in it (episode)."""
    hindsight_k: float = 4.0
    """Relabelled transitions k per original one."""


@dataclass(frozen=True)
class OptimizerSettings:
    """How losses are minimised."""

    lr_end: float = 1.0
    """Final multiplier of the learning rate; linear schedule."""
    lr_steps: int = 1_000_000
    """Environment steps over which the multiplier is reached."""
    max_grad_norm: float = 0.0
    """Maximum gradient norm; 0: no clipping."""
    td_loss: Any = "mse"
    """Loss of temporal-difference errors: mse, huber, or package.module:function(td_error)."""


@dataclass(frozen=True)
class EpsilonSettings:
    """Epsilon-greedy exploration."""

    epsilon_start: float = 1.0
    """Probability epsilon of a uniform action at the start."""
    epsilon_end: float = 0.05
    """Final epsilon."""
    epsilon_steps: int = 10_000
    """Environment steps over which epsilon is annealed linearly."""


@dataclass(frozen=True)
class QSettings(OptimizerSettings, PERSettings, ReplaySettings):
    """Deep Q-learning of one agent."""

    capacity: int = 100_000
    per_beta_steps: int = 100_000
    double_q: bool = True
    """Double Q-learning (van Hasselt et al. 2016): the online network chooses the next action, the target network
    evaluates it."""
    lr: float = 1e-3
    """Learning rate."""
    eps: float = 1e-8
    """Adam's epsilon."""
    tau: float = 0.01
    """Polyak factor tau of the target network; 1: a hard copy."""
    target_update_interval: int = 1
    """Updates between updates of the target network."""
    max_grad_norm: float = 10.0
    td_loss: Any = "huber"
    frame_stack: int = 1
    """Frames that are stacked, by the memory while learning."""


@dataclass(frozen=True)
class TemperatureSettings:
    """The temperature of maximum-entropy learning, tuned automatically."""

    alpha: float = 1.0
    """Initial temperature alpha, the weight of the policy's entropy."""
    alpha_lr: float = 1e-3
    """Learning rate of alpha; 0: alpha is constant."""
    target_entropy: float = 0.5
    """Target entropy of discrete actions, as a fraction of the maximum; of continuous ones it is -dim(A)."""


@dataclass(frozen=True)
class RolloutSettings:
    """On-policy learning from rollouts."""

    gamma: float = 0.99
    """Discount factor gamma."""
    rollout: int = 128
    """Steps of each environment per update."""
    minibatches: int = 4
    """Minibatches per epoch."""
    entropy: float = 0.01
    """Entropy coefficient."""
    normalize_advantage: bool = True
    """Standardise the advantages of a rollout."""
    normalize_obs: bool = False
    """Standardise observations by their running mean and deviation."""
    recurrent: bool = False
    """Recurrent networks: a recurrent layer of the last of the hidden sizes."""
    rnn: RNN = "gru"
    """Recurrent layer: gru, or lstm (by torch alone)."""


@dataclass(frozen=True)
class NetworkSettings:
    """Networks by default, or one's own."""

    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers."""
    activation: Literal["relu", "leaky_relu", "tanh", "elu", "gelu", "silu"] = "relu"
    """Activation of the hidden layers."""
    init: Literal["uniform", "xavier", "orthogonal"] = "uniform"
    """Initialisation of the weights."""
    encoder: Any = "auto"
    """Encoder of observations: auto (by the space), flat, or package.module:function(space)."""
    network: Any = "mlp"
    """Networks after the encoder: mlp, or package.module:function(inputs, outputs)."""


@dataclass(frozen=True)
class PPOSettings(NetworkSettings, OptimizerSettings, RolloutSettings):
    """Advantages by GAE, and the clipped surrogate of PPO."""

    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation (GAE)."""
    bootstrap_on_truncation: bool = True
    """Bootstrap from the final observation where an episode was truncated."""
    epochs: int = 4
    """Epochs over each rollout."""
    clip: float = 0.2
    """Clip range epsilon of the probability ratio; 0: no clipping (A2C)."""
    value_clip: float = 0.0
    """Clip range of the value function; 0: no clipping."""
    value_norm: Literal["none", "running", "popart"] = "running"
    """Normalisation of value targets: none, by running mean and deviation, or PopArt (which preserves outputs)."""
    chunk_length: int = 16
    """Steps of the sequences that recurrent networks are trained on."""
    log_std: float = 0.0
    """Initial log standard deviation of continuous actions, in units where -1 to 1 spans the space."""


def recurrent_size(config: Any) -> int:
    """Width of the states of recurrent networks; 0: they are not recurrent.

    Args:
        config: Settings that have hidden, and are ``RolloutSettings``.
    """
    return state_size(config.rnn, config.hidden[-1]) if config.recurrent else 0


def network_options(config: Any, *more: str) -> dict[str, Any]:
    """What networks are made with: settings by their names, the encoder and the network of one's own found.

    Args:
        config: Settings that have hidden, and are ``NetworkSettings``.
        more: Names of further settings.
    """
    found = {name: getattr(config, name) for name in ("hidden", "activation", "init", *more)}
    parts = {"encoder": resolve("encoder", config.encoder, ENCODERS)}
    return {**found, **parts, "network": resolve("network", config.network, {"mlp": None})}
