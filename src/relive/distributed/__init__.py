"""Sharded replay memory on a Ray cluster: fault-tolerant writers, one distribution over all shards.

Needs ``relive[ray]``; see docs/scale.md.
"""

from relive.distributed.cluster import Shards
from relive.distributed.learner import ShardLearner
from relive.distributed.ray_start import connect
from relive.distributed.tally import Ratio
from relive.distributed.writer import ShardWriter

__all__ = ["Ratio", "ShardLearner", "ShardWriter", "Shards", "connect"]
