"""One marine battle, unit by unit in plain Python: the oracle of the fast one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Unit:
    x: float
    y: float
    hp: float
    cooldown: float
    prey: int = -1
    shots: int = 0

    @property
    def alive(self) -> bool:
        return self.hp > 0


@dataclass
class Plain:
    """The rules, said once more."""

    allies: list[Unit]
    enemies: list[Unit]
    last: list[int] = field(default_factory=list)

    @property
    def units(self) -> list[Unit]:
        return [*self.allies, *self.enemies]

    # ---- a step ----------------------------------------------------------------------------------------------------

    def step(self, actions: list[int], jitter: list[float]) -> None:
        units, n = self.units, len(self.allies)
        for enemy in self.enemies:
            reach = [
                (_away(enemy, ally), i) for i, ally in enumerate(self.allies) if ally.alive and _away(enemy, ally) <= 6
            ]
            if enemy.prey not in [i for _, i in reach]:
                enemy.prey = min(reach)[1] if reach else -1
        for _ in range(4):
            was_alive = [unit.alive for unit in units]
            targets = [a - 6 + n if a >= 6 else -1 for a in actions] + [enemy.prey for enemy in self.enemies]
            aims = [was_alive[i] and t >= 0 and was_alive[t] for i, t in enumerate(targets)]
            near = [aims[i] and _away(units[i], units[t]) <= 5.75 for i, t in enumerate(targets)]
            fires = [near[i] and unit.cooldown <= 0 for i, unit in enumerate(units)]
            moves = [self._way(i, actions, targets, aims, near, was_alive) for i in range(len(units))]
            for unit, (dx, dy) in zip(units, moves, strict=True):
                unit.x, unit.y = unit.x + dx, unit.y + dy
            for unit, (px, py) in zip(units, self._apart(was_alive), strict=True):
                unit.x = min(max(unit.x + px, 0.0), 32 - 1e-6)
                unit.y = min(max(unit.y + py, 8.0), 24 - 1e-6)
            hits = [0] * len(units)
            for i, fired in enumerate(fires):
                if fired:
                    units[i].cooldown += 13.8 - 1 + 3 * jitter[i]
                    units[i].shots += 1
                    hits[targets[i]] += 1
            for unit, count in zip(units, hits, strict=True):
                unit.hp = max(unit.hp - 6 * count, 0.0)
            turned = dict.fromkeys(range(len(self.enemies)), -1)
            for i, fired in enumerate(fires[:n]):
                if fired:
                    enemy = self.enemies[targets[i] - n]
                    if enemy.prey < 0 or _away(enemy, units[enemy.prey]) > 5.75:
                        turned[targets[i] - n] = i
            for j, shooter in turned.items():
                if shooter >= 0:
                    self.enemies[j].prey = shooter
            for unit in units:
                unit.cooldown = unit.cooldown - 2 if unit.cooldown > 0 else 0.0
        self.last = list(actions)

    def _way(self, i: int, actions: Any, targets: Any, aims: Any, near: Any, was_alive: Any) -> tuple[float, float]:
        unit, n, speed = self.units[i], len(self.allies), 2.25 / 8
        if not was_alive[i] or near[i]:
            return 0.0, 0.0
        if aims[i]:
            target = self.units[targets[i]]
            away = _away(unit, target)
            return (target.x - unit.x) / away * speed, (target.y - unit.y) / away * speed
        if i < n:
            x, y = {2: (0, 1), 3: (0, -1), 4: (1, 0), 5: (-1, 0)}.get(actions[i], (0, 0))
            return x * speed, y * speed
        dx, dy = 9.0 - unit.x, 16.0 - unit.y
        far = max(math.hypot(dx, dy), speed)
        return dx / far * speed, dy / far * speed

    def _apart(self, was_alive: list[bool]) -> list[tuple[float, float]]:
        units = self.units
        pushes = [(0.0, 0.0)] * len(units)
        for i, one in enumerate(units):
            for j, other in enumerate(units):
                if i == j or not was_alive[i] or not was_alive[j]:
                    continue
                away = max(_away(one, other), 1e-9)
                if away < 0.75:
                    share = (0.75 - away) / 2 / away
                    x, y = pushes[i]
                    pushes[i] = x - (other.x - one.x) * share, y - (other.y - one.y) * share
        return pushes

    # ---- looking ---------------------------------------------------------------------------------------------------

    def allowed(self, i: int) -> list[bool]:
        me = self.allies[i]
        if not me.alive:
            return [True] + [False] * (5 + len(self.enemies))
        moves = [_walkable(me.x + x, me.y + y) for x, y in ((0, 1), (0, -1), (1, 0), (-1, 0))]
        return [False, True, *moves, *(enemy.alive and _away(me, enemy) <= 6 for enemy in self.enemies)]

    def obs(self, i: int) -> list[float]:
        me = self.allies[i]
        size = 4 + 5 * len(self.enemies) + 5 * (len(self.allies) - 1) + 1
        if not me.alive:
            return [0.0] * size
        allowed = self.allowed(i)
        seen: list[float] = [float(flag) for flag in allowed[2:6]]
        others = [(enemy, float(allowed[6 + j])) for j, enemy in enumerate(self.enemies)]
        others += [(ally, 1.0) for k, ally in enumerate(self.allies) if k != i]
        for other, flag in others:
            away = _away(me, other)
            if other.alive and away < 9:
                seen += [flag, away / 9, (other.x - me.x) / 9, (other.y - me.y) / 9, other.hp / 45]
            else:
                seen += [0.0] * 5
        return [*seen, me.hp / 45]

    def state(self) -> list[float]:
        found: list[float] = []
        for ally in self.allies:
            row = [ally.hp / 45, max(ally.cooldown, 0) / 15, (ally.x - 16) / 32, (ally.y - 16) / 32]
            found += row if ally.alive else [0.0] * 4
        for enemy in self.enemies:
            row = [enemy.hp / 45, (enemy.x - 16) / 32, (enemy.y - 16) / 32]
            found += row if enemy.alive else [0.0] * 3
        for i in range(len(self.allies)):
            one_hot = [0.0] * (6 + len(self.enemies))
            if self.last:
                one_hot[self.last[i]] = 1.0
            found += one_hot
        return found


def _away(one: Unit, other: Unit) -> float:
    return math.sqrt((one.x - other.x) ** 2 + (one.y - other.y) ** 2)


def _walkable(x: float, y: float) -> bool:
    return 0 <= x < 32 and 8 <= y < 24
