"""XuanCe's memories for many agents, up to 1.1."""

from relive.compat.xuance.v1_1.marl_buffer import BaseBuffer
from relive.compat.xuance.v1_1.marl_off_policy import MARL_OffPolicyBuffer, MeanField_OffPolicyBuffer
from relive.compat.xuance.v1_1.marl_on_policy import COMA_Buffer, MARL_OnPolicyBuffer, MeanField_OnPolicyBuffer
from relive.compat.xuance.v1_1.marl_recurrent import (
    COMA_Buffer_RNN,
    MARL_OffPolicyBuffer_RNN,
    MARL_OnPolicyBuffer_RNN,
)

__all__ = [
    "BaseBuffer",
    "COMA_Buffer",
    "COMA_Buffer_RNN",
    "MARL_OffPolicyBuffer",
    "MARL_OffPolicyBuffer_RNN",
    "MARL_OnPolicyBuffer",
    "MARL_OnPolicyBuffer_RNN",
    "MeanField_OffPolicyBuffer",
    "MeanField_OnPolicyBuffer",
]
