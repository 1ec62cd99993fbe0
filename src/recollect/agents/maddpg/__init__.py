"""MADDPG: deterministic policies for many agents, each judged by a critic that sees everyone (Lowe et al. 2017).

With options also DDPG, MATD3, mixed teams, ensembles of policies and guesses of the others' policies. See
docs/algorithms/maddpg.md.
"""

from recollect.agents.maddpg.config import MADDPGConfig
from recollect.agents.maddpg.learner import MADDPG

__all__ = ["MADDPG", "MADDPGConfig"]
