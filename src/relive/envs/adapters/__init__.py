"""Adapters from and to Gymnasium, PettingZoo and PyMARL."""

from typing import TYPE_CHECKING, Any

from relive.envs.adapters.from_gymnasium import FromGymnasium, FromGymnasiumVector, MakeGymnasium
from relive.envs.adapters.from_gymnasium_agents import FromGymnasiumAgents
from relive.envs.adapters.from_pettingzoo import FromPettingZoo, MakePettingZoo
from relive.envs.adapters.from_pymarl import FromPymarl, MakePymarl
from relive.envs.adapters.own import MakeSingle
from relive.envs.adapters.pool import Pool
from relive.envs.adapters.single_env import SingleEnv, SingleStep
from relive.envs.adapters.sync import SyncEnvs
from relive.envs.adapters.to_pymarl import ToPymarl

if TYPE_CHECKING:
    from relive.envs.adapters.to_pettingzoo import ToPettingZoo

__all__ = [
    "FromGymnasium",
    "FromGymnasiumAgents",
    "FromGymnasiumVector",
    "FromPettingZoo",
    "FromPymarl",
    "MakeGymnasium",
    "MakePettingZoo",
    "MakePymarl",
    "MakeSingle",
    "Pool",
    "SingleEnv",
    "SingleStep",
    "SyncEnvs",
    "ToPettingZoo",
    "ToPymarl",
]


def __getattr__(name: str) -> Any:
    if name == "ToPettingZoo":  # a subclass of PettingZoo's, which is optional
        from relive.envs.adapters.to_pettingzoo import ToPettingZoo

        return ToPettingZoo
    raise AttributeError(name)
