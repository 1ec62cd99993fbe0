"""Training: the loop, evaluation, checkpoints, loggers, plots; home of ``relive.train`` and ``relive.resume``.

import relive

result = relive.train("maddpg", env="simple_spread", steps=1_000_000)
"""

from relive.training.loop import Result, resume, train
from relive.training.settings import RunConfig

__all__ = ["Result", "RunConfig", "resume", "train"]
