"""XuanCe's memories for many agents: ``from recollect.compat.xuance.memory_tools_marl import MARL_OffPolicyBuffer``."""

from recollect.compat.xuance.marl_buffer import BaseBuffer
from recollect.compat.xuance.marl_off_policy import MARL_OffPolicyBuffer, MeanField_OffPolicyBuffer
from recollect.compat.xuance.marl_on_policy import COMA_Buffer, MARL_OnPolicyBuffer, MeanField_OnPolicyBuffer
from recollect.compat.xuance.marl_recurrent import COMA_Buffer_RNN, MARL_OffPolicyBuffer_RNN, MARL_OnPolicyBuffer_RNN

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
