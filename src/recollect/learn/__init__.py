"""Parts of learning algorithms: networks, heads, noise, normalisation. Pure and small."""

from recollect.learn.adam import Adam
from recollect.learn.follow import copy_module, follow_module
from recollect.learn.heads import BoxHead, ChoiceHead, Head, ShareHead, head_of
from recollect.learn.nets import Nets
from recollect.learn.noise import Gaussian, Noise, OrnsteinUhlenbeck, linear
from recollect.learn.normal import Running
from recollect.learn.stack import ACTIVATIONS, Stack

__all__ = [
    "ACTIVATIONS",
    "Adam",
    "BoxHead",
    "ChoiceHead",
    "Gaussian",
    "Head",
    "Nets",
    "Noise",
    "OrnsteinUhlenbeck",
    "Running",
    "ShareHead",
    "Stack",
    "copy_module",
    "follow_module",
    "head_of",
    "linear",
]
