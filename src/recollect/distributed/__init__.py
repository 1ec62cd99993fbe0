"""Sharded replay memory on a Ray cluster: fault-tolerant writers, one distribution over all shards.

Needs ``recollect[ray]``; see docs/scale.md.
"""

from recollect.distributed.cluster import Shards
from recollect.distributed.learner import ShardLearner
from recollect.distributed.ray_start import connect
from recollect.distributed.tally import Ratio
from recollect.distributed.writer import ShardWriter

__all__ = ["Ratio", "ShardLearner", "ShardWriter", "Shards", "connect"]
