"""Training: the loop, evaluation, checkpoints, loggers, plots.

from recollect.agents.maddpg import MADDPGConfig
from recollect.train import run

run(MADDPGConfig(), env="simple_spread", steps=1_000_000)
"""

from recollect.train.loop import Result, resume, run
from recollect.train.settings import RunConfig

__all__ = ["Result", "RunConfig", "resume", "run"]
