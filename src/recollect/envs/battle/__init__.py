"""A battle of many: two teams on a grid, by the rules of MAgent2's battle, many at once."""

from recollect.envs.battle.environment import Battle
from recollect.envs.battle.rules import ATTACKS, MOVES, Field

__all__ = ["ATTACKS", "MOVES", "Battle", "Field"]
