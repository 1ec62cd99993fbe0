"""Scripted baselines.

Each takes the observations of :class:`Marines` and returns actions ``[E, allies]``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from relive.envs.marines.views import FIRST_ATTACK
from relive.types import Array

__all__ = ["focus", "nearest", "random"]

_EAST = 4


def random(seen: Mapping[str, Array], generator: np.random.Generator) -> Array:
    """A random available action."""
    chance = generator.random(seen["avail_actions"].shape)
    return np.asarray((chance * seen["avail_actions"]).argmax(axis=2))


def nearest(seen: Mapping[str, Array]) -> Array:
    """Attack the nearest enemy; with none in range walk to the nearest in sight, or east."""
    foes = _foes(seen)
    away = np.where(_attackable(seen), foes[..., 1], np.inf)
    return _fight(seen, away.argmin(axis=2), np.asarray(_attackable(seen).any(axis=2)))


def focus(seen: Mapping[str, Array]) -> Array:
    """Focus fire: attack the enemy that most allies can reach, among these the one with the fewest hit points."""
    attackable = _attackable(seen)
    foes = _foes(seen)
    health = np.where(attackable, foes[..., 4], np.inf)
    worth = attackable.sum(axis=1) * 10.0 - 10.0 * np.where(np.isfinite(health.min(axis=1)), health.min(axis=1), 0)
    ranked = np.where(attackable, worth[:, None], -np.inf)
    return _fight(seen, ranked.argmax(axis=2), np.asarray(attackable.any(axis=2)))


def _attackable(seen: Mapping[str, Array]) -> Array:
    return seen["avail_actions"][:, :, FIRST_ATTACK:]


def _foes(seen: Mapping[str, Array]) -> Array:
    """Observed features of every enemy, ``[E, allies, enemies, 5]``."""
    enemies = seen["avail_actions"].shape[2] - FIRST_ATTACK
    obs = seen["obs"]
    return obs[:, :, 4 : 4 + 5 * enemies].reshape(*obs.shape[:2], enemies, 5)


def _fight(seen: Mapping[str, Array], target: Array, reached: Array) -> Array:
    """Attack a target in range, else walk; the dead do nothing."""
    foes = _foes(seen)
    away = np.where(foes[..., 4] > 0, foes[..., 1], np.inf)
    closest = away.argmin(axis=2)[..., None]
    east = np.take_along_axis(foes[..., 2], closest, axis=2)[..., 0]
    north = np.take_along_axis(foes[..., 3], closest, axis=2)[..., 0]
    walk = np.where(np.abs(east) >= np.abs(north), np.where(east >= 0, _EAST, 5), np.where(north > 0, 2, 3))
    action = np.where(reached, FIRST_ATTACK + target, walk)
    allowed = np.take_along_axis(seen["avail_actions"], action[..., None], axis=2)[..., 0]
    return np.where(allowed, action, np.where(seen["avail_actions"][..., 0], 0, 1))
