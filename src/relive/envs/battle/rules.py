"""The rules of the battle environment, vectorised.

All arrays have the battles first: ``[E, units]``, the red team first. Agents have 10 hit points, deal 2 damage to one
of the eight cells around them, recover 0.1 a step, and move up to two cells. Attacks come first, then moves, each in
random order: a killed agent no longer attacks, and a cell that was left can be entered.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from relive.envs.dice import Dice
from relive.types import Array

__all__ = ["ATTACKS", "HIT_POINTS", "MOVES", "STAY", "Field", "starts"]

HIT_POINTS, DAMAGE, RECOVERY = np.float32(10.0), np.float32(2.0), np.float32(0.1)  # float32 as in MAgent2
_GAP = 3  # cells between each team and the middle


def _circle(radius: float, *, middle: bool) -> list[tuple[int, int]]:
    reach = range(-int(radius), int(radius) + 1)
    near = [(x, y) for y in reach for x in reach if x * x + y * y <= radius * radius]
    return [cell for cell in near if middle or cell != (0, 0)]


MOVES = np.array(_circle(2, middle=True))
"""The displacement of each of the first actions, ``[13, 2]``: east and south."""
ATTACKS = np.array(_circle(1.5, middle=False))
"""The cell that each of the remaining actions attacks, ``[8, 2]``."""
STAY = MOVES.tolist().index([0, 0])
EMPTY, WALL = -1, -2


def starts(size: int) -> tuple[Array, Array]:
    """Where the red and the blue team begin on a map of this size, ``[N, 2]`` each: squares with every other cell."""
    side = int(math.sqrt(size * size * 0.04)) * 2
    south = range((size - side) // 2, (size - side) // 2 + side, 2)

    def team(west: int) -> list[tuple[int, int]]:
        cells = [(x, y) for x in range(west, west + side, 2) for y in south]
        return [(x, y) for x, y in cells if 0 < x < size - 1 and 0 < y < size - 1]

    red, blue = team(size // 2 - _GAP - side), team(size // 2 + _GAP)
    return np.array(red), np.array(blue[: len(red)])


@final
class Field:
    """Battles on maps of a size.

    Args:
        size: Cells of a side, with a wall around.
    """

    def __init__(self, size: int, num_envs: int) -> None:
        self.size, self.num_envs = size, num_envs
        self._starts = np.concatenate(starts(size))
        self.team = len(starts(size)[0])
        """Agents of the red team."""
        self.units = len(self._starts)
        self.pos = np.zeros((num_envs, self.units, 2), np.int64)
        """East and south of the corner."""
        self.hit_points = np.zeros((num_envs, self.units), np.float32)
        self.grid = np.full((num_envs, size, size), EMPTY)
        """Who stands in a cell, ``[E, south, east]``."""
        self._foe = np.arange(self.units) < self.team
        self._every = np.arange(num_envs)

    @property
    def alive(self) -> Array:
        """Who is alive, ``[E, units]``."""
        return np.asarray(self.hit_points > 0)

    def begin(self, rows: Array) -> None:
        """Begin these battles."""
        self.pos[rows] = self._starts
        self.hit_points[rows] = HIT_POINTS
        self.mark()

    def mark(self) -> None:
        """Recompute the grid of occupied cells."""
        self.grid[:] = WALL
        self.grid[:, 1:-1, 1:-1] = EMPTY
        env, unit = np.nonzero(self.alive)
        x, y = self.pos[env, unit].T
        self.grid[env, y, x] = unit

    def step(self, action: Array, dice: Dice) -> tuple[Array, Array]:
        """Attacks, moves, recovery. Returns which agents hit an opponent and which killed one, ``[E, units]``."""
        order = np.argsort(dice.uniform(slice(None), 2 * self.units).T.reshape(self.num_envs, 2, self.units), axis=2)
        alive = self.alive
        found = self._strike(action, alive & (action >= len(MOVES)), order[:, 0])
        moving = self.alive & (action < len(MOVES)) & (action != STAY)
        self._move(action, moving, order[:, 1])
        self.hit_points[...] = np.where(self.alive, np.minimum(self.hit_points + RECOVERY, HIT_POINTS), 0)
        return found

    def _strike(self, action: Array, striking: Array, order: Array) -> tuple[Array, Array]:
        struck, killed = np.zeros_like(striking), np.zeros_like(striking)
        there = self.pos + ATTACKS[np.where(striking, action - len(MOVES), 0)]
        target = self.grid[self._every[:, None], there[..., 1], there[..., 0]]
        hits = striking & (target >= 0) & (self._foe[target] != self._foe)
        for env, unit in _in_turn(hits, order):
            victim = target[env, unit]
            able = (self.hit_points[env, unit] > 0) & (self.hit_points[env, victim] > 0)
            env, unit, victim = env[able], unit[able], victim[able]
            left = self.hit_points[env, victim] - DAMAGE
            self.hit_points[env, victim] = np.maximum(left, 0)
            killed[env, unit] = left <= 0
            struck[env, unit] = left > 0
        env, unit = np.nonzero(~self.alive & (self.grid[self._every[:, None], self.pos[..., 1], self.pos[..., 0]] >= 0))
        same = self.grid[env, self.pos[env, unit, 1], self.pos[env, unit, 0]] == unit
        env, unit = env[same], unit[same]
        self.grid[env, self.pos[env, unit, 1], self.pos[env, unit, 0]] = EMPTY
        return struck, killed

    def _move(self, action: Array, moving: Array, order: Array) -> None:
        there = self.pos + MOVES[np.where(moving, action, STAY)]
        inside = ((there > 0) & (there < self.size - 1)).all(axis=2)
        for env, unit in _in_turn(moving & inside, order):
            x, y = there[env, unit].T
            free = self.grid[env, y, x] == EMPTY
            env, unit, x, y = env[free], unit[free], x[free], y[free]
            before = self.pos[env, unit]
            self.grid[env, before[:, 1], before[:, 0]] = EMPTY
            self.grid[env, y, x] = unit
            self.pos[env, unit] = there[env, unit]


def _in_turn(mask: Array, order: Array) -> list[tuple[Array, Array]]:
    """The agents of ``mask [E, units]`` in each battle's order: battles and units, turn by turn."""
    sorted_mask = np.take_along_axis(mask, order, axis=1)
    env, place = np.nonzero(sorted_mask)
    if not len(env):
        return []
    unit = order[env, place]
    turn = (np.cumsum(sorted_mask, axis=1) - 1)[env, place]
    by_turn = np.argsort(turn, kind="stable")
    env, unit, turn = env[by_turn], unit[by_turn], turn[by_turn]
    edges = np.flatnonzero(np.diff(turn)) + 1
    return list(zip(np.split(env, edges), np.split(unit, edges), strict=True))
