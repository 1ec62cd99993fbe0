"""Rendering of particle worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from relive.envs.canvas import Canvas, Paint
from relive.envs.interface import LegendEntry
from relive.envs.particle.bodies import Colour
from relive.types import Array

if TYPE_CHECKING:
    from relive.envs.particle.world import World

__all__ = ["draw", "legend"]

_WIDTH = 360
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def draw(world: World, index: int) -> Array:
    """An image of one environment: bodies, velocities and communication."""
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


def legend(world: World, index: int) -> list[LegendEntry]:
    """Groups of agents with the numbers that their discs show, and kinds of landmarks, by colour."""
    scenario = world.scenario
    tints = scenario.tint(world, index) if scenario.tint is not None else {}
    entries: list[LegendEntry] = []
    for kind in dict.fromkeys(agent.name.rpartition("_")[0] for agent in scenario.agents):
        members = [body for body, agent in enumerate(scenario.agents) if agent.name.rpartition("_")[0] == kind]
        numbers = dict.fromkeys(scenario.agents[body].name.rpartition("_")[2] for body in (members[0], members[-1]))
        colours = dict.fromkeys(tints.get(body, scenario.agents[body].colour) for body in members)
        goal = " (colour of its goal)" if any(body in tints for body in members) else ""
        entries.append((f"{kind} {'-'.join(numbers)}{goal}", tuple(colours)))
    kinds: dict[str, dict[Colour, None]] = {}
    for body, mark in enumerate(scenario.landmarks, len(scenario.agents)):
        kind = "goal" if body in tints else mark.name.partition(" ")[0]
        kinds.setdefault(kind, {})[tints.get(body, mark.colour)] = None
    return entries + [(kind, tuple(colours)) for kind, colours in kinds.items()]


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
