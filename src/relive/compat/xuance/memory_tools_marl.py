"""XuanCe's memories for many agents: ``from relive.compat.xuance.memory_tools_marl import MARL_OffPolicyBuffer``."""

from relive.compat.xuance.arrays import create_memory
from relive.compat.xuance.marl_buffer import BaseBuffer
from relive.compat.xuance.marl_off_policy import MARL_OffPolicyBuffer, MeanField_OffPolicyBuffer
from relive.compat.xuance.marl_on_policy import MARL_OnPolicyBuffer, MeanField_OnPolicyBuffer
from relive.compat.xuance.marl_recurrent import (
    IC3Net_OnPolicyBuffer_RNN,
    MARL_OffPolicyBuffer_RNN,
    MARL_OnPolicyBuffer_RNN,
    MeanField_OffPolicyBuffer_RNN,
    MeanField_OnPolicyBuffer_RNN,
)
from relive.compat.xuance.spaces import space2shape

__all__ = [
    "BaseBuffer",
    "IC3Net_OnPolicyBuffer_RNN",
    "MARL_OffPolicyBuffer",
    "MARL_OffPolicyBuffer_RNN",
    "MARL_OnPolicyBuffer",
    "MARL_OnPolicyBuffer_RNN",
    "MeanField_OffPolicyBuffer",
    "MeanField_OffPolicyBuffer_RNN",
    "MeanField_OnPolicyBuffer",
    "MeanField_OnPolicyBuffer_RNN",
    "create_memory",
    "space2shape",
]
