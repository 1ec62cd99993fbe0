"""Observations, action masks and state of the marine skirmish: the layouts of the 4-marine map."""

from __future__ import annotations

import numpy as np

from relive.envs.marines.battle import ATTACK_REACH, FIELD, HIT_POINTS, SIGHT, Battle, walkable
from relive.types import Array

__all__ = ["FIRST_ATTACK", "MOVES", "available", "obs_size", "observe", "state_of", "state_size"]

FIRST_ATTACK = 6
MOVES = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0))  # north, south, east, west: actions 2 to 5
_FULL_COOLDOWN = 15.0
_MIDDLE = FIELD / 2
_PADDING = 16  # transposing an array with a stride of a power of two is several times slower


def obs_size(allies: int, enemies: int) -> int:
    """Width of an observation."""
    return 4 + 5 * enemies + 5 * (allies - 1) + 1


def state_size(allies: int, enemies: int) -> int:
    """Width of the state."""
    return 4 * allies + 3 * enemies + allies * (FIRST_ATTACK + enemies)


def available(battle: Battle) -> Array:
    """The action masks, ``[E, allies, actions]``."""
    allies, enemies = battle.allies, battle.enemies
    allowed = np.zeros((allies, FIRST_ATTACK + enemies, battle.num_envs + _PADDING), bool)[:, :, : battle.num_envs]
    alive = battle.hit_points > 0
    mine = alive[:allies]
    allowed[:, 0] = ~mine
    allowed[:, 1] = mine
    for action, (x, y) in enumerate(MOVES, 2):
        allowed[:, action] = mine & walkable(battle.pos[0, :allies] + x, battle.pos[1, :allies] + y)
    reached = battle.distance[:allies, allies:] <= ATTACK_REACH
    allowed[:, FIRST_ATTACK:] = reached & mine[:, None] & alive[allies:]
    return allowed.transpose(2, 0, 1).copy()


def observe(battle: Battle, allowed: Array) -> Array:
    """The observations, ``[E, allies, obs_size]``."""
    allies, enemies, num_envs = battle.allies, battle.enemies, battle.num_envs
    padded = np.empty((allies, obs_size(allies, enemies), num_envs + _PADDING), np.float32)
    seen = padded[:, :, :num_envs]
    alive = battle.hit_points > 0
    health = battle.hit_points / HIT_POINTS
    visible = (battle.distance[:allies] < SIGHT) & alive & alive[:allies, None]
    moves = allowed.transpose(1, 2, 0)
    seen[:, :4] = moves[:, 2:FIRST_ATTACK]
    offset = battle.offset[:, :allies] / SIGHT
    features = (battle.distance[:allies] / SIGHT, *offset, health)
    foes = slice(4, 4 + 5 * enemies)
    to_foes = visible[:, allies:]
    seen[:, foes][:, ::5] = moves[:, FIRST_ATTACK:]
    for place, feature in enumerate(features, 1):
        seen[:, foes][:, place::5] = feature[..., allies:, :] * to_foes
    friends = slice(foes.stop, foes.stop + 5 * (allies - 1))
    if allies > 1:
        me, other = _others(allies)
        to_friends = visible[me, other]
        seen[:, friends][:, ::5] = to_friends
        for place, feature in enumerate(features[:3], 1):
            seen[:, friends][:, place::5] = feature[me, other] * to_friends
        seen[:, friends][:, 4::5] = health[other] * to_friends
    seen[:, -1] = health[:allies]
    return seen.transpose(2, 0, 1).copy()


def state_of(battle: Battle, last: Array) -> Array:
    """The global state, ``[E, state_size]``.

    Args:
        last: The agents' last actions ``[allies, E]``, -1 before the first.
    """
    allies, enemies, num_envs = battle.allies, battle.enemies, battle.num_envs
    state = np.zeros((state_size(allies, enemies), num_envs + _PADDING), np.float32)[:, :num_envs]
    alive = battle.hit_points > 0
    health = battle.hit_points / HIT_POINTS
    x, y = (battle.pos - _MIDDLE) / FIELD * alive
    ours = state[: 4 * allies]
    ours[::4] = health[:allies]
    ours[1::4] = np.maximum(battle.cooldown[:allies], 0) / _FULL_COOLDOWN * alive[:allies]
    ours[2::4], ours[3::4] = x[:allies], y[:allies]
    theirs = state[4 * allies : 4 * allies + 3 * enemies]
    theirs[::3] = health[allies:]
    theirs[1::3], theirs[2::3] = x[allies:], y[allies:]
    actions = state[4 * allies + 3 * enemies :].reshape(allies, FIRST_ATTACK + enemies, -1)
    np.copyto(actions, last[:, None] == np.arange(FIRST_ATTACK + enemies)[:, None])
    return state.T.copy()


def _others(allies: int) -> tuple[Array, Array]:
    me = np.arange(allies)[:, None]
    other = np.array([[unit for unit in range(allies) if unit != i] for i in range(allies)])
    return me, other
