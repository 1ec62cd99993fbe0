"""Parts of learning algorithms: networks, heads, noise, normalisation. Pure and small."""

from recollect.learn.adam import Adam
from recollect.learn.follow import copy_module, follow_module
from recollect.learn.heads import BoxHead, ChoiceHead, Head, ShareHead, head_of
from recollect.learn.mixer import Mixer
from recollect.learn.nets import Nets
from recollect.learn.noise import Gaussian, Noise, OrnsteinUhlenbeck, linear
from recollect.learn.normal import Running
from recollect.learn.parameters import Parameters, shorten
from recollect.learn.recurrent import Recurrent
from recollect.learn.rmsprop import RMSProp
from recollect.learn.stack import ACTIVATIONS, Stack

__all__ = [
    "ACTIVATIONS",
    "Adam",
    "BoxHead",
    "ChoiceHead",
    "Gaussian",
    "Head",
    "Mixer",
    "Nets",
    "Noise",
    "OrnsteinUhlenbeck",
    "Parameters",
    "RMSProp",
    "Recurrent",
    "Running",
    "ShareHead",
    "Stack",
    "copy_module",
    "follow_module",
    "head_of",
    "linear",
    "shorten",
]
