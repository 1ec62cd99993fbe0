"""MAgent2's battle: two large teams on a grid, vectorised."""

from recollect.envs.battle.environment import Battle
from recollect.envs.battle.rules import ATTACKS, MOVES, Field

__all__ = ["ATTACKS", "MOVES", "Battle", "Field"]
