"""The simulation of marine battles, vectorised.

All arrays have the battles last: ``[units, E]``, allies first. Each marine has 45 hit points, a weapon of 6 damage and
range 5 that reloads in about 14 game loops, and a speed of 2.25 a second.
"""

from __future__ import annotations

from typing import final

import numpy as np

from relive.envs.dice import Dice
from relive.types import Array

__all__ = ["ALLY_START", "ATTACK_REACH", "FIELD", "HIT_POINTS", "RADIUS", "SIGHT", "Battle", "walkable"]

FIELD = 32.0
SOUTH, NORTH = 8.0, 24.0
ALLY_START = (9.0, 16.0)
ENEMY_START = (23.0, 16.0)
HIT_POINTS = 45.0
RADIUS = 0.375
SIGHT = 9.0
DAMAGE = 6.0
WEAPON_REACH = 5.0 + 2 * RADIUS
ATTACK_REACH = 6.0
TICKS, LOOPS = 4, 2  # a step is eight game loops (sixteen a second), simulated two at a time
SPEED = 2.25 / 16 * LOOPS  # a tick
RELOAD, RELOAD_FROM, RELOAD_TO = 13.8, -1.0, 2.0  # loops between shots, and how far that varies
_SPACING, _SHIFT, _NOISE = 1.4, 1.0, 0.3  # start positions: spacing, shift of a side, noise of a unit
_TOGETHER = 1e-9
_LOWEST = np.array([0.0, SOUTH])[:, None, None]
_HIGHEST = np.array([FIELD, NORTH])[:, None, None] - 1e-6


def walkable(x: Array, y: Array) -> Array:
    """Whether points are on the field that units can walk."""
    return np.asarray((x >= 0) & (x < FIELD) & (y >= SOUTH) & (y < NORTH))


@final
class Battle:
    """Battles of ``allies``, controlled by agents, against ``enemies``, scripted."""

    def __init__(self, allies: int, enemies: int, num_envs: int) -> None:
        self.allies, self.enemies, self.num_envs = allies, enemies, num_envs
        self.units = allies + enemies
        shape = (self.units, num_envs)
        self.pos = np.zeros((2, *shape))
        """Coordinates from the field's south-west corner, ``[2, units, E]``."""
        self.hit_points = np.zeros(shape)
        self.cooldown = np.zeros(shape)
        """Loops until the next shot; ready at 0 or less."""
        self.prey = np.full((enemies, num_envs), -1)
        """The target of each enemy; -1: none."""
        self.shot = np.full(shape, -1)
        """Which unit each unit shot at in the last step; -1: none."""
        self.offset = np.zeros((2, self.units, *shape))
        """From unit i to unit j, ``[2, i, j, E]``."""
        self.distance = np.zeros((self.units, *shape))
        self._each = np.arange(num_envs)
        self._goal = np.array(ALLY_START)[:, None, None]
        self._pairs = np.triu_indices(self.units, 1)
        turns = np.arange(len(self._pairs[0])) * 2.4  # radians, different for every pair
        self._ways = np.array([np.cos(turns), np.sin(turns)]) * _TOGETHER
        self._start = _formation(allies, enemies)

    def begin(self, rows: Array, dice: Dice) -> None:
        """Reset battles to their start positions."""
        drawn = 2 * dice.uniform(rows, 2 * (self.units + 2)).reshape(2, self.units + 2, -1) - 1
        places = self._start[:, :, None] + drawn[:, 2:] * _NOISE
        places[:, : self.allies] += drawn[:, :1] * _SHIFT
        places[:, self.allies :] += drawn[:, 1:2] * _SHIFT
        self.pos[:, :, rows] = places
        self.hit_points[:, rows] = HIT_POINTS
        self.cooldown[:, rows] = 0
        self.prey[:, rows] = -1
        self.shot[:, rows] = -1

    def measure(self) -> None:
        """Compute distances between units."""
        np.subtract(self.pos[:, None], self.pos[:, :, None], out=self.offset)
        square = self.offset * self.offset
        np.sqrt(square[0] + square[1], out=self.distance)

    def step(self, push: Array, aim: Array, jitter: Array) -> None:
        """One step of the agents.

        Args:
            push: Directions of allies, -1 to 1 along each axis, ``[2, allies, E]``.
            aim: The unit that each ally attacks, or -1.
            jitter: Uniform noise of each unit's next reload, ``[units, E]``.
        """
        allies = self.allies
        reload = RELOAD + RELOAD_FROM + (RELOAD_TO - RELOAD_FROM) * jitter
        target = np.empty((self.units, self.num_envs), np.int64)
        target[:allies] = aim
        self.shot[:] = -1
        self._hunt()
        going = np.empty_like(self.pos)
        flat = self.pos.reshape(2, -1)
        for _ in range(TICKS):
            alive = self.hit_points > 0
            target[allies:] = self.prey
            at = np.maximum(target, 0) * self.num_envs + self._each  # places in flat arrays
            offset = flat.take(at, axis=1)
            offset -= self.pos
            away = _length(offset)
            aiming = alive & alive.take(at)
            aiming &= target >= 0
            reached = aiming & (away <= WEAPON_REACH)
            fires = reached & (self.cooldown <= 0)

            going[:, :allies] = push
            going[:, allies:] = self._walk_on()
            chasing = aiming ^ reached
            if chasing.any():
                np.divide(offset, away, out=going, where=chasing)
            going *= SPEED * (alive & ~reached)
            self._move(going, alive)

            if fires.any():
                self.cooldown[fires] += reload[fires]  # part of a tick counts towards the next reload
                self._hit(fires, target)
            np.maximum(self.cooldown, 0, out=self.cooldown)
            self.cooldown -= LOOPS * (self.cooldown > 0)
        self.measure()

    def _hunt(self) -> None:
        """Enemies keep their target while it is alive and in range; else they take the nearest ally in range, if any.

        They choose once a step, as agents do, so that two sides with the same policy win equally often.
        """
        allies = self.allies
        away = np.where(self.hit_points[:allies] > 0, self.distance[allies:, :allies], np.inf)
        prey = np.maximum(self.prey, 0)[:, None]
        kept = (self.prey >= 0) & (np.take_along_axis(away, prey, axis=1)[:, 0] <= ATTACK_REACH)
        found = np.where(away.min(axis=1) <= ATTACK_REACH, away.argmin(axis=1), -1)
        np.copyto(self.prey, found, where=~kept)

    def _walk_on(self) -> Array:
        """Enemies' movement towards the allies' start."""
        way = self._goal - self.pos[:, self.allies :]
        way /= np.maximum(_length(way), SPEED)
        return way

    def _move(self, going: Array, alive: Array) -> None:
        """Move, then separate units that overlap, each by half."""
        self.pos += going
        one, other = self._pairs
        offset = self.pos.take(other, axis=1)
        offset -= self.pos.take(one, axis=1)
        square = offset * offset
        close = square[0] + square[1] < (2 * RADIUS) ** 2
        if close.any():
            pair, battle = np.nonzero(close)
            both = alive[one[pair], battle] & alive[other[pair], battle]
            pair, battle = pair[both], battle[both]
            between = offset[:, pair, battle]
            away = _length(between)
            between[:, away < _TOGETHER] = self._ways[
                :, pair[away < _TOGETHER]
            ]  # coincident units part in any direction
            away = np.maximum(away, _TOGETHER)
            between *= (2 * RADIUS - away) / (2 * away)
            for axis in (0, 1):
                np.subtract.at(self.pos[axis], (one[pair], battle), between[axis])
                np.add.at(self.pos[axis], (other[pair], battle), between[axis])
        np.maximum(self.pos, _LOWEST, out=self.pos)
        np.minimum(self.pos, _HIGHEST, out=self.pos)

    def _hit(self, fires: Array, target: Array) -> None:
        """Apply the shots of one tick at once. An enemy that is hit while its target is out of range targets the
        shooter.
        """
        shooter, battle = np.nonzero(fires)
        struck = target[shooter, battle]
        self.shot[shooter, battle] = struck
        np.subtract.at(self.hit_points, (struck, battle), DAMAGE)
        np.maximum(self.hit_points, 0, out=self.hit_points)
        turned = struck >= self.allies
        enemy, by, battle = struck[turned], shooter[turned], battle[turned]
        prey = self.prey[enemy - self.allies, battle]
        away = _length(self.pos[:, enemy, battle] - self.pos[:, prey, battle])
        idle = (prey < 0) | (away > WEAPON_REACH)
        self.prey[enemy[idle] - self.allies, battle[idle]] = by[idle]


def _length(offset: Array) -> Array:
    square = offset * offset
    return np.asarray(np.sqrt(square[0] + square[1]))


def _formation(allies: int, enemies: int) -> Array:
    """Start positions before noise, ``[2, units]``: each side in columns around its centre, mirrored."""
    places: list[tuple[float, float]] = []
    for count, (x, y), back in ((allies, ALLY_START, -1), (enemies, ENEMY_START, 1)):
        column = min(count, 5 if count <= 10 else 8)
        ranks = -(-count // column)
        for unit in range(count):
            rank, file = divmod(unit, column)
            height = min(column, count - rank * column)
            places.append((x + back * _SPACING * (rank - (ranks - 1) / 2), y + _SPACING * (file - (height - 1) / 2)))
    return np.array(places).T
