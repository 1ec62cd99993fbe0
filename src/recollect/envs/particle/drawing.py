"""Rendering of particle worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recollect.envs.canvas import Canvas, Paint
from recollect.envs.interface import Array

if TYPE_CHECKING:
    from recollect.envs.particle.world import World

__all__ = ["draw"]

_WIDTH = 360
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def draw(world: World, index: int) -> Array:
    """One environment: the field, what stands in it, who moves where and who says what."""
    pos = world.pos[:, :, index]
    far = max(1.15, float(np.abs(pos).max()) + 0.15)
    canvas = Canvas((-far, -far), (far, far), _WIDTH)
    apart = 0.5 * max(1, round(far / 2))
    for tick in np.arange(-np.floor(far / apart), np.floor(far / apart) + 1) * apart:
        canvas.line([(tick, -far), (tick, far)], (232, 232, 226))
        canvas.line([(-far, tick), (far, tick)], (232, 232, 226))
    canvas.line([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)], (205, 205, 198), 1.5)

    scenario = world.scenario
    tints = scenario.tint(world, index) if scenario.tint is not None else {}
    agents = len(scenario.agents)
    by_size = sorted(range(agents, len(pos)), key=lambda body: -scenario.landmarks[body - agents].size)
    for body in by_size:
        mark = scenario.landmarks[body - agents]
        paint = tints.get(body, mark.colour)
        x, y = pos[body]
        if mark.collides:
            canvas.disc(x, y, mark.size, paint, _darker(paint))
        elif mark.size > 0.2:
            canvas.disc(x, y, mark.size, (*paint, 150), (*_darker(paint), 120))
        else:
            canvas.disc(x, y, mark.size, paint)
            canvas.disc(x, y, mark.size + 0.03, None, (*paint, 150))
    for body, agent in enumerate(scenario.agents):
        paint = tints.get(body, agent.colour)
        x, y = pos[body]
        east, north = world.vel[body, :, index] * 0.3
        canvas.line([(x, y), (x + east, y + north)], (*paint, 160), 2)
        canvas.disc(x, y, agent.size, (*paint, 205), _darker(paint))
        canvas.text(x, y, agent.name.rpartition("_")[2], (255, 255, 255), max(6.0, 150 * agent.size / far), "mm")
    said = [_saying(world, body, index) for body, agent in enumerate(scenario.agents) if agent.speaks]
    for line, words in enumerate(reversed(said)):
        canvas.text(-far * 0.96, far * (-0.94 + 0.09 * line), words)
    return canvas.pixels()


def _saying(world: World, agent: int, index: int) -> str:
    words = world.said[agent, :, index]
    name = world.scenario.agents[agent].name
    if not words.any():
        return f"{name}: -"
    if ((words == 0) | (words == 1)).all() and words.sum() == 1:
        return f"{name}: {_LETTERS[int(words.argmax()) % len(_LETTERS)]}"
    return f"{name}: {' '.join(f'{word:.1f}' for word in words)}"


def _darker(paint: Paint) -> tuple[int, int, int]:
    return int(paint[0] * 0.65), int(paint[1] * 0.65), int(paint[2] * 0.65)
