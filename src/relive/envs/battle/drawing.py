"""Rendering of the battle environment."""

from __future__ import annotations

from relive.envs.battle.rules import HIT_POINTS, Field
from relive.envs.canvas import Canvas
from relive.envs.interface import LegendEntry
from relive.types import Array

__all__ = ["LEGEND", "draw"]

_WIDTH = 420
_PAINTS = ((224, 49, 49), (28, 126, 214))
LEGEND: tuple[LegendEntry, ...] = (("red team", _PAINTS[:1]), ("blue team (paler: fewer hit points)", _PAINTS[1:]))


def draw(field: Field, index: int) -> Array:
    """An image of one battle; agents are paler the fewer hit points they have."""
    size = field.size
    canvas = Canvas((0, 0), (size, size + 2), _WIDTH, (58, 62, 60))
    canvas.box(1, 1, size - 2, size - 2, (238, 236, 230))
    alive = field.alive[index]
    for unit in range(field.units):
        if alive[unit]:
            x, south = field.pos[index, unit]
            paint, health = _PAINTS[int(unit >= field.team)], field.hit_points[index, unit] / HIT_POINTS
            pale = tuple(int(238 + (part - 238) * (0.25 + 0.75 * health)) for part in paint)
            canvas.disc(x + 0.5, size - south - 0.5, 0.46, pale, paint, 0.6)  # type: ignore[arg-type]
    red, blue = int(alive[: field.team].sum()), int(alive[field.team :].sum())
    canvas.text(1, size + 1, f"red {red}", (250, 205, 205), 11)
    canvas.text(size - 1, size + 1, f"blue {blue}", (200, 220, 245), 11, "rm")
    return canvas.pixels()
