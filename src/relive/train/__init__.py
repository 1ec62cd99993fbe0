"""Training: the loop, evaluation, checkpoints, loggers, plots.

from relive.agents.maddpg import MADDPGConfig
from relive.train import run

run(MADDPGConfig(), env="simple_spread", steps=1_000_000)
"""

from relive.train.loop import Result, resume, run
from relive.train.settings import RunConfig

__all__ = ["Result", "RunConfig", "resume", "run"]
