"""QMIX: values of agents, mixed into one that rises with each of them (Rashid et al. 2018), from whole episodes.

With other mixers VDN (their sum, Sunehag et al. 2018) and independent Q-learning. See docs/algorithms/qmix.md.
"""

from recollect.agents.qmix.config import QMIXConfig
from recollect.agents.qmix.learner import QMIX

__all__ = ["QMIX", "QMIXConfig"]
