"""Building blocks of learning algorithms: networks, action distributions, losses, exploration."""

from recollect.learn.actions import action_head
from recollect.learn.distributions import (
    Categorical,
    Distribution,
    Gaussian,
    GumbelSoftmax,
    MultiCategorical,
    Simplex,
    SquashedGaussian,
    TanhDeterministic,
)
from recollect.learn.encoders import Encoder, ImageEncoder
from recollect.learn.exploration import GaussianNoise, OrnsteinUhlenbeck, epsilon_greedy, greedy
from recollect.learn.lstm import StackedLSTM
from recollect.learn.mixers import QMixer, QPlexMixer
from recollect.learn.networks import Copies, PerAgent, StackedGRU, StackedMLP
from recollect.learn.polyak import polyak_update, target_of
from recollect.learn.running_stats import RunningMeanStd
from recollect.learn.schedules import linear

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
