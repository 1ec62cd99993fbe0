"""XuanCe's memories for one agent: ``from relive.compat.xuance.memory_tools import DummyOffPolicyBuffer``."""

from relive.compat.xuance.arrays import create_memory, sample_batch, store_element
from relive.compat.xuance.buffer import Buffer
from relive.compat.xuance.off_policy import DummyOffPolicyBuffer, DummyOffPolicyBuffer_Atari, PerOffPolicyBuffer
from relive.compat.xuance.on_policy import DummyOnPolicyBuffer, DummyOnPolicyBuffer_Atari
from relive.compat.xuance.recurrent import EpisodeBuffer, RecurrentOffPolicyBuffer
from relive.compat.xuance.segment_trees import MinSegmentTree, SumSegmentTree
from relive.compat.xuance.sequential import SequentialReplayBuffer
from relive.compat.xuance.spaces import discount_cumsum, space2shape

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
