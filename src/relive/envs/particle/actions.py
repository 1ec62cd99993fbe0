"""Actions of particle worlds: forces in four directions, and communication symbols."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium import spaces

from relive.envs.interface import choices, numbers
from relive.envs.particle.bodies import Agent
from relive.errors import OptionError
from relive.types import Array

__all__ = ["Controls"]

_PUSHES = 5  # nothing, left, right, down, up
_PUSH_X = np.array([0.0, -1.0, 1.0, 0.0, 0.0])
_PUSH_Y = np.array([0.0, 0.0, 0.0, -1.0, 1.0])


@final
class Controls:
    """Agents' action spaces, and the forces and symbols that actions stand for."""

    def __init__(self, agents: tuple[Agent, ...], words: int, *, continuous: bool, raw: bool) -> None:
        self._agents = agents
        self._words = words
        self._continuous = continuous or raw
        self._raw = raw
        self._eye = np.eye(words)
        self._accel = np.array([agent.accel for agent in agents])[:, None]
        self._choices = [(_PUSHES if agent.moves else 1) * (words if agent.speaks else 1) for agent in agents]
        self._push_x = [np.tile(_PUSH_X, choices // _PUSHES) for choices in self._choices]
        self._push_y = [np.tile(_PUSH_Y, choices // _PUSHES) for choices in self._choices]

    def space(self, agent: int) -> spaces.Space[Any]:
        """The action space of one agent."""
        body = self._agents[agent]
        if not self._continuous:
            return spaces.Discrete(self._choices[agent])
        low, high = (-np.inf, np.inf) if self._raw else (0.0, 1.0)
        return spaces.Box(low, high, (_PUSHES * body.moves + self._words * body.speaks,), np.float32)

    def decode(
        self, name: str, action: Any, first: int, last: int, num_envs: int
    ) -> tuple[Array, tuple[Array | None, Array | None, Array | None]]:
        """The actions ``[E, A]`` or ``[E, A, n]`` of a group as stored; and forces along x and y ``[A, E]``, and
        symbols ``[A, words, E]``, None for agents that do not move or speak.

        Raises:
            OptionError: If an action is outside its space.
        """
        if self._continuous:
            return self._decode_numbers(name, action, first, last, num_envs)
        body = self._agents[first]
        chosen = choices(name, action, (num_envs, last - first), self._choices[first])
        turned = chosen.T
        push_x = push_y = said = None
        if body.moves:
            push_x = self._push_x[first].take(turned) * self._accel[first:last]
            push_y = self._push_y[first].take(turned) * self._accel[first:last]
        if body.speaks:
            word = turned // _PUSHES if body.moves else turned
            said = self._eye.take(word, axis=0).transpose(0, 2, 1)
        return chosen, (push_x, push_y, said)

    def _decode_numbers(
        self, name: str, action: Any, first: int, last: int, num_envs: int
    ) -> tuple[Array, tuple[Array | None, Array | None, Array | None]]:
        body = self._agents[first]
        given = numbers(name, action)
        shape = (num_envs, last - first, _PUSHES * body.moves + self._words * body.speaks)
        if given.shape != shape:
            raise OptionError(name, f"have shape {list(shape)}", list(given.shape))
        if given.dtype.kind not in "fiu":
            raise OptionError(name, "be numbers", given.dtype)
        if not np.isfinite(given).all():
            raise OptionError(name, "be finite", given[~np.isfinite(given)][0])
        turned = (given if self._raw else np.minimum(np.maximum(given, 0.0), 1.0)).transpose(1, 2, 0)
        push_x = push_y = said = None
        if body.moves:
            accel = -self._accel[first:last] if self._raw else self._accel[first:last]
            push_x = (turned[:, 2] - turned[:, 1]) * accel
            push_y = (turned[:, 4] - turned[:, 3]) * accel
        if body.speaks:
            said = turned[:, _PUSHES * body.moves :]
        return given.copy(), (push_x, push_y, said)
