"""The battle environment: two large teams on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.battle.rules import ATTACKS, HIT_POINTS, MOVES, WALL, Field
from relive.envs.built_in import BuiltIn
from relive.envs.dice import Dice
from relive.envs.interface import AgentGroup, LegendEntry, Step, choices, notify, plain_actions, schema_of
from relive.envs.options import positive
from relive.types import Actions, Array

__all__ = ["Battle"]

_SIGHT = 6
_VIEW = 2 * _SIGHT + 1
_REACH = np.arange(-_SIGHT, _SIGHT + 1)
_CIRCLE = (_REACH[:, None] ** 2 + _REACH**2 <= _SIGHT**2)[..., None]
_KILL = 5.0


@final
class Battle(BuiltIn):
    """Two large teams, red and blue, that learn to beat each other.

    Observations are uint8 images of the 13 x 13 cells around an agent, masked to a circle; channels are walls, own
    team, its hit points, opponents, and theirs (255: present, or full). Actions are 13 moves and 8 attacks.

    Args:
        map_size: Cells of a side: 40 has 64 against 64, 45 has 81.
        max_episode_steps: Steps after which a battle is truncated.
        step_reward: Reward of every step of an agent alive.
        attack_penalty: Reward of every attack.
        attack_opponent_reward: Additional reward of hitting an opponent; killing one gives 5 instead.
        dead_penalty: Reward of dying, in place of all others of that step.
        positions: Whether there is a ``position`` field.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        map_size: int = 40,
        max_episode_steps: int = 400,
        step_reward: float = -0.005,
        attack_penalty: float = -0.1,
        attack_opponent_reward: float = 0.2,
        dead_penalty: float = -0.1,
        positions: bool = False,
    ) -> None:
        self.name = "battle"
        self.num_envs: int = positive("num_envs", num_envs)
        self._limit: int = positive("max_episode_steps", max_episode_steps)
        self.max_episode_steps: int | None = self._limit
        self.field = Field(positive("map_size", map_size, least=12), self.num_envs)
        self._rewards = (step_reward, attack_penalty, attack_opponent_reward, dead_penalty)
        self.shared_reward = False
        self.state_space: Space[Any] | None = None
        view, actions = spaces.Box(0, 255, (_VIEW, _VIEW, 5), np.uint8), spaces.Discrete(len(MOVES) + len(ATTACKS))
        count = self.field.team
        self.groups: tuple[AgentGroup, ...] = tuple(
            AgentGroup(team, tuple(f"{team}_{i}" for i in range(count)), view, actions, mask=True, located=positions)
            for team in ("red", "blue")
        )
        self.schema = schema_of(self.groups, None, shared_reward=False)
        self.time = np.zeros(self.num_envs, np.int64)
        self.report_names: tuple[str, ...] = ("red_won", "blue_won")
        self.at_end: Callable[[int], None] | None = None
        """Called with the index of an environment whose episode ended, while ``render`` still shows its last state."""
        self._seen: dict[str, Array] = {}

    def _begin(self, rows: Array, dice: Dice) -> None:
        dice.begin(rows)
        self.field.begin(rows)
        self.time[rows] = 0

    def look(self) -> dict[str, Array]:
        """Observations recomputed, for use after writing to the field's units."""
        self.field.mark()
        self._seen = self._observe()
        return dict(self._seen)

    def step(self, action: Actions) -> Step:
        """Step all environments."""
        dice = self._started("step")
        field, count = self.field, self.field.team
        given, size = plain_actions(self.groups, action), len(MOVES) + len(ATTACKS)
        chosen = [choices(g.key("action"), given[g.key("action")], (self.num_envs, count), size) for g in self.groups]
        row: dict[str, Array] = {**self._seen, **{g.key("action"): a for g, a in zip(self.groups, chosen, strict=True)}}
        both = np.concatenate(chosen, axis=1)
        before = field.alive
        struck, killed = field.step(both, dice)
        self.time += 1
        alive = field.alive
        each, penalty, hit, dying = self._rewards
        reward = each + penalty * (both >= len(MOVES)) + hit * struck + _KILL * killed
        reward = np.where(alive, reward, np.where(before, dying, 0.0)).astype(np.float32)
        standing = np.stack([alive[:, :count].any(axis=1), alive[:, count:].any(axis=1)])
        terminated = np.asarray(~standing.all(axis=0))
        truncated = (self.time >= self._limit) & ~terminated
        row |= {self.groups[0].key("reward"): reward[:, :count], self.groups[1].key("reward"): reward[:, count:]}
        row["terminated"], row["truncated"] = terminated, truncated
        left = np.stack([alive[:, :count].sum(axis=1), alive[:, count:].sum(axis=1)])
        ended = terminated | truncated
        info: dict[str, Array] = {
            "red_won": ended & (left[0] > left[1]),
            "blue_won": ended & (left[1] > left[0]),
            "red_left": left[0],
            "blue_left": left[1],
        }
        seen = self._observe()
        if ended.any():
            row |= {_final(key): value for key, value in seen.items()}
            notify(self.at_end, ended)
            self._begin(np.flatnonzero(ended), dice)
            seen = self._observe()
        self._seen = seen
        return Step(dict(seen), row, terminated, truncated, info)

    def _observe(self) -> dict[str, Array]:
        """Observations of all agents; zeros for the dead."""
        field, count = self.field, self.field.team
        size = field.size + 2 * _SIGHT
        maps = np.zeros((self.num_envs, size, size, 5), np.uint8)
        inner = maps[:, _SIGHT:-_SIGHT, _SIGHT:-_SIGHT]
        inner[..., 0] = 255 * (field.grid == WALL)
        alive, found = field.alive, {}
        env, unit = np.nonzero(alive)
        x, y = field.pos[env, unit].T
        health = np.rint(field.hit_points[env, unit] * (255 / HIT_POINTS)).astype(np.uint8)
        for index, group in enumerate(self.groups):
            mine = 1 + 2 * ((unit >= count) != bool(index))
            inner[env, y, x, mine] = 255
            inner[env, y, x, mine + 1] = health
            own = (unit >= count) == bool(index)
            windows = np.lib.stride_tricks.sliding_window_view(maps, (_VIEW, _VIEW), axis=(1, 2))
            obs = np.zeros((self.num_envs, count, _VIEW, _VIEW, 5), np.uint8)
            around = np.moveaxis(windows[env[own], y[own], x[own]], 1, -1)
            obs[env[own], unit[own] - index * count] = around * _CIRCLE
            inner[env, y, x, 1:] = 0
            found[group.key("obs")] = obs
            found[group.key("agent_mask")] = alive[:, index * count : (index + 1) * count].copy()
            if group.located:
                place = field.pos[:, index * count : (index + 1) * count]
                found[group.key("position")] = place.astype(np.float32)
        return found

    def render(self, index: int = 0) -> Array:
        """An image of one battle, RGB bytes."""
        from relive.envs.battle.drawing import draw

        return draw(self.field, index)

    def legend(self, _index: int = 0) -> list[LegendEntry]:
        """The two teams."""
        from relive.envs.battle.drawing import LEGEND

        return list(LEGEND)

    def _own(self) -> dict[str, Array]:
        return {"pos": self.field.pos, "hit_points": self.field.hit_points, "time": self.time}


def _final(key: str) -> str:
    """``red/obs`` as ``red/final_obs``."""
    group, _, field = key.rpartition("/")
    return f"{group}/final_{field}"
