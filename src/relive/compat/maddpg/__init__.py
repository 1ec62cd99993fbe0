"""MADDPG codes by their own names: buffers, agents, and particle worlds with OpenAI's list interface.

==================  ====================================================================================
``Buffer``          one dict entry an agent and thing: ``o_0``, ``u_0``, ``r_0``, ``o_next_0``, ``o_1`` ...
``PackedMemory``    one matrix, a row ``[s, a, r, s_]`` a step
``ReplayBuffer``    ``push`` of whole transitions
``ReplayMemory``    one array a thing, ``add_memo``; samples are tensors
``PolicyBuffer``    one rollout, sampled with discounted and standardised returns
``Actor``           a policy (torch)
``Critic``          values of what all agents see and do (torch)
``MADDPG``          one agent's networks and how it learns (torch)
``make_env``        ``obs_n, reward_n, done_n, info_n = env.step([a0, a1])`` (Gymnasium)
==================  ====================================================================================
"""

from importlib import import_module
from typing import Any

from relive.compat.maddpg.buffers import Buffer, PackedMemory, ReplayMemory
from relive.compat.maddpg.lists import PolicyBuffer, ReplayBuffer

__all__ = [
    "MADDPG",
    "Actor",
    "Buffer",
    "Critic",
    "PackedMemory",
    "PolicyBuffer",
    "ReplayBuffer",
    "ReplayMemory",
    "make_env",
]

_LATER = {"Actor": "agents", "Critic": "agents", "MADDPG": "agents", "make_env": "worlds"}


def __getattr__(name: str) -> Any:
    if name in _LATER:  # what needs more than NumPy
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
