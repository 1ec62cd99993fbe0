"""The marine skirmish: a small battle with the layout of StarCraft's 4-marine map, vectorised."""

from recollect.envs.marines import players
from recollect.envs.marines.battle import Battle
from recollect.envs.marines.skirmish import Marines

__all__ = ["Battle", "Marines", "players"]
