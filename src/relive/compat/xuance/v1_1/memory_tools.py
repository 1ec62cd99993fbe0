"""XuanCe's memories for one agent, up to 1.1."""

from relive.compat.xuance.arrays import create_memory, sample_batch, store_element
from relive.compat.xuance.recurrent import EpisodeBuffer
from relive.compat.xuance.segment_trees import MinSegmentTree, SumSegmentTree
from relive.compat.xuance.spaces import discount_cumsum, space2shape
from relive.compat.xuance.v1_1.one_agent import (
    Buffer,
    DummyOffPolicyBuffer,
    DummyOffPolicyBuffer_Atari,
    DummyOnPolicyBuffer,
    DummyOnPolicyBuffer_Atari,
    PerOffPolicyBuffer,
    RecurrentOffPolicyBuffer,
)

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
    "SumSegmentTree",
    "create_memory",
    "discount_cumsum",
    "sample_batch",
    "space2shape",
    "store_element",
]
