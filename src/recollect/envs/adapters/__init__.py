"""Other projects' environments as ours, and ours as theirs."""

from typing import TYPE_CHECKING, Any

from recollect.envs.adapters.from_gymnasium import FromGymnasium, FromGymnasiumVector, MakeGymnasium
from recollect.envs.adapters.from_pettingzoo import FromPettingZoo, MakePettingZoo
from recollect.envs.adapters.from_pymarl import FromPymarl, MakePymarl
from recollect.envs.adapters.lockstep import Lockstep
from recollect.envs.adapters.one import One, Outcome
from recollect.envs.adapters.pool import Pool
from recollect.envs.adapters.to_pymarl import ToPymarl

if TYPE_CHECKING:
    from recollect.envs.adapters.to_pettingzoo import ToPettingZoo

__all__ = [
    "FromGymnasium",
    "FromGymnasiumVector",
    "FromPettingZoo",
    "FromPymarl",
    "Lockstep",
    "MakeGymnasium",
    "MakePettingZoo",
    "MakePymarl",
    "One",
    "Outcome",
    "Pool",
    "ToPettingZoo",
    "ToPymarl",
]


def __getattr__(name: str) -> Any:
    if name == "ToPettingZoo":  # is a class of PettingZoo's, which need not be there
        from recollect.envs.adapters.to_pettingzoo import ToPettingZoo

        return ToPettingZoo
    raise AttributeError(name)
