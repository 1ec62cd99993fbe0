"""Building blocks of learning algorithms: networks, action distributions, losses, exploration."""

from relive.learn.actions import action_head
from relive.learn.distributions import (
    Categorical,
    Distribution,
    Gaussian,
    GumbelSoftmax,
    MultiCategorical,
    Simplex,
    SquashedGaussian,
    TanhDeterministic,
)
from relive.learn.encoders import Encoder, ImageEncoder
from relive.learn.exploration import GaussianNoise, OrnsteinUhlenbeck, epsilon_greedy, greedy
from relive.learn.lstm import StackedLSTM
from relive.learn.mixers import QMixer, QPlexMixer
from relive.learn.networks import Copies, PerAgent, StackedGRU, StackedMLP
from relive.learn.polyak import polyak_update, target_of
from relive.learn.running_stats import RunningMeanStd
from relive.learn.schedules import linear

__all__ = [
    "Categorical",
    "Copies",
    "Distribution",
    "Encoder",
    "Gaussian",
    "GaussianNoise",
    "GumbelSoftmax",
    "ImageEncoder",
    "MultiCategorical",
    "OrnsteinUhlenbeck",
    "PerAgent",
    "QMixer",
    "QPlexMixer",
    "RunningMeanStd",
    "Simplex",
    "SquashedGaussian",
    "StackedGRU",
    "StackedLSTM",
    "StackedMLP",
    "TanhDeterministic",
    "action_head",
    "epsilon_greedy",
    "greedy",
    "linear",
    "polyak_update",
    "target_of",
]
