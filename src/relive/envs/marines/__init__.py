"""The marine skirmish: a small battle with the layout of StarCraft's 4-marine map, vectorised."""

from relive.envs.marines import players
from relive.envs.marines.battle import Battle
from relive.envs.marines.skirmish import Marines

__all__ = ["Battle", "Marines", "players"]
