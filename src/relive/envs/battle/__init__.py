"""MAgent2's battle: two large teams on a grid, vectorised."""

from relive.envs.battle.environment import Battle
from relive.envs.battle.rules import ATTACKS, MOVES, Field

__all__ = ["ATTACKS", "MOVES", "Battle", "Field"]
