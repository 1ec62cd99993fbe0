"""XuanCe's memories for one agent: ``from recollect.compat.xuance.memory_tools import DummyOffPolicyBuffer``."""

from recollect.compat.xuance.arrays import create_memory, sample_batch, store_element
from recollect.compat.xuance.buffer import Buffer
from recollect.compat.xuance.off_policy import DummyOffPolicyBuffer, DummyOffPolicyBuffer_Atari, PerOffPolicyBuffer
from recollect.compat.xuance.on_policy import DummyOnPolicyBuffer, DummyOnPolicyBuffer_Atari
from recollect.compat.xuance.recurrent import EpisodeBuffer, RecurrentOffPolicyBuffer
from recollect.compat.xuance.segment_trees import MinSegmentTree, SumSegmentTree
from recollect.compat.xuance.sequential import SequentialReplayBuffer
from recollect.compat.xuance.spaces import discount_cumsum, space2shape

__all__ = [
    "Buffer",
    "DummyOffPolicyBuffer",
    "DummyOffPolicyBuffer_Atari",
    "DummyOnPolicyBuffer",
    "DummyOnPolicyBuffer_Atari",
    "EpisodeBuffer",
    "MinSegmentTree",
    "PerOffPolicyBuffer",
    "RecurrentOffPolicyBuffer",
    "SequentialReplayBuffer",
    "SumSegmentTree",
    "create_memory",
    "discount_cumsum",
    "sample_batch",
    "space2shape",
    "store_element",
]
