"""Rendering of marine battles."""

from __future__ import annotations

from relive.envs.canvas import Canvas
from relive.envs.interface import LegendEntry
from relive.envs.marines.battle import FIELD, HIT_POINTS, NORTH, RADIUS, SOUTH, Battle
from relive.types import Array

__all__ = ["LEGEND", "draw"]

_WIDTH = 480
_OURS, _THEIRS = (28, 126, 214), (224, 49, 49)
LEGEND: tuple[LegendEntry, ...] = (("allies (agents)", (_OURS,)), ("enemies (scripted)", (_THEIRS,)))


def draw(battle: Battle, index: int) -> Array:
    """An image of one battle: positions, hit points and shots."""
    canvas = Canvas((0, SOUTH - 1), (FIELD, NORTH + 1), _WIDTH, (58, 62, 60))
    canvas.box(0, SOUTH, FIELD, NORTH - SOUTH, (222, 214, 198))
    for x in range(4, int(FIELD), 4):
        canvas.line([(x, SOUTH), (x, NORTH)], (212, 203, 186))
    for y in range(int(SOUTH) + 4, int(NORTH), 4):
        canvas.line([(0, y), (FIELD, y)], (212, 203, 186))
    x, y = battle.pos[:, :, index]
    health = battle.hit_points[:, index] / HIT_POINTS
    for unit in range(battle.units):
        if health[unit] <= 0:
            arm = RADIUS * 0.7
            for tilt in (-1, 1):
                ends = [(x[unit] - arm, y[unit] - tilt * arm), (x[unit] + arm, y[unit] + tilt * arm)]
                canvas.line(ends, (120, 110, 100, 160), 1.5)
    for unit, target in enumerate(battle.shot[:, index]):
        if target >= 0:
            paint = _OURS if unit < battle.allies else _THEIRS
            canvas.line([(x[unit], y[unit]), (x[target], y[target])], (*paint, 110), 1.2)
    for unit in range(battle.units):
        if health[unit] > 0:
            paint = _OURS if unit < battle.allies else _THEIRS
            edge = tuple(int(part * 0.6) for part in paint)
            canvas.disc(x[unit], y[unit], RADIUS, paint, edge[:3], 1.0)  # type: ignore[arg-type]
            number = unit if unit < battle.allies else unit - battle.allies
            canvas.text(x[unit], y[unit], str(number), (255, 255, 255), 7, "mm")
            width, height, bottom = 1.1, 0.16, y[unit] + RADIUS + 0.16
            canvas.box(x[unit] - width / 2, bottom, width, height, (70, 70, 70))
            green = (64, 170, 76) if health[unit] > 0.5 else (232, 152, 20) if health[unit] > 0.25 else (214, 40, 40)
            canvas.box(x[unit] - width / 2, bottom, width * health[unit], height, green)
    alive = battle.hit_points[:, index] > 0
    ours, theirs = int(alive[: battle.allies].sum()), int(alive[battle.allies :].sum())
    canvas.text(0.4, NORTH + 0.5, f"{ours} {'ally' if ours == 1 else 'allies'}", (200, 220, 245), 10)
    many = "enemy" if theirs == 1 else "enemies"
    canvas.text(FIELD - 0.4, NORTH + 0.5, f"{theirs} {many}", (250, 205, 205), 10, "rm")
    return canvas.pixels()
