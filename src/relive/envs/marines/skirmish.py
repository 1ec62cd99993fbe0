"""The marine skirmish as an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.built_in import BuiltIn
from relive.envs.dice import Dice
from relive.envs.interface import AgentGroup, LegendEntry, Step, choices, notify, plain_actions, schema_of
from relive.envs.marines import views
from relive.envs.marines.battle import HIT_POINTS, Battle
from relive.envs.options import positive
from relive.errors import OptionError
from relive.types import Actions, Array

__all__ = ["Marines"]

_KILL, _WIN, _MOST = 10.0, 200.0, 20.0


@final
class Marines(BuiltIn):
    """Marines controlled by agents against scripted marines.

    Args:
        allies: Number of agents.
        enemies: Number of scripted enemies.
        max_episode_steps: Steps after which a battle is truncated, and not won.
        reward: ``"positive"``: damage dealt, 10 a kill and 200 for the win, scaled to at most 20 a battle;
            ``"losses"``: minus half of the same for damage taken; ``"sparse"``: 1 for a win, -1 for a defeat.
        state: Whether there is a global ``state``.
    """

    def __init__(
        self,
        allies: int = 4,
        enemies: int | None = None,
        num_envs: int = 1,
        *,
        max_episode_steps: int = 60,
        reward: Literal["positive", "losses", "sparse"] = "positive",
        state: bool = True,
    ) -> None:
        allies = positive("allies", allies)
        enemies = positive("enemies", allies if enemies is None else enemies)
        if max(allies, enemies) > 50:
            raise OptionError("allies and enemies", "be at most 50 each", f"{allies} and {enemies}")
        if reward not in ("positive", "losses", "sparse"):
            raise OptionError("reward", "be 'positive', 'losses' or 'sparse'", repr(reward))
        self.name = f"marines_{allies}v{enemies}"
        self.num_envs: int = positive("num_envs", num_envs)
        self.shared_reward = True
        self._limit: int = positive("max_episode_steps", max_episode_steps)
        self.max_episode_steps: int | None = self._limit
        self.battle = Battle(allies, enemies, self.num_envs)
        self._reward = reward
        self._scale = _MOST / (_KILL * enemies + _WIN + HIT_POINTS * enemies)
        self._choices = views.FIRST_ATTACK + enemies
        names = tuple(f"marine_{i}" for i in range(allies))
        obs = spaces.Box(-1.0, 1.0, (views.obs_size(allies, enemies),), np.float32)
        self.groups: tuple[AgentGroup, ...] = (
            AgentGroup("", names, obs, spaces.Discrete(self._choices), avail=True, mask=True),
        )
        most = spaces.Box(-1.0, 2.0, (views.state_size(allies, enemies),), np.float32)
        self.state_space: Space[Any] | None = most if state else None
        self.schema = schema_of(self.groups, self.state_space, shared_reward=True)
        self.time = np.zeros(self.num_envs, np.int64)
        self.last = np.full((allies, self.num_envs), -1)
        """The last actions, ``[allies, E]``; -1 before the first step."""
        self.report_names: tuple[str, ...] = ("battle_won",)
        self.at_end: Callable[[int], None] | None = None
        """Called with the index of an environment whose episode ended, while ``render`` still shows its last state."""
        self._seen: dict[str, Array] = {}
        self._pushes = np.array([(0.0, 0.0), (0.0, 0.0), *views.MOVES, *[(0.0, 0.0)] * enemies]).T.copy()
        self._aims = np.array([-1] * views.FIRST_ATTACK + [allies + j for j in range(enemies)])

    def _begin(self, rows: Array, dice: Dice) -> None:
        dice.begin(rows)
        self.battle.begin(rows, dice)
        self.time[rows] = 0
        self.last[:, rows] = -1

    def look(self) -> dict[str, Array]:
        """Observations recomputed, for use after writing to the battle's units."""
        self.battle.measure()
        self._seen = self._observe()
        return dict(self._seen)

    def _observe(self) -> dict[str, Array]:
        allowed = views.available(self.battle)
        self._allowed = allowed.copy()  # callers may write to the returned array
        alive = self.battle.hit_points[: self.battle.allies] > 0
        seen = {"obs": views.observe(self.battle, allowed), "avail_actions": allowed, "agent_mask": alive.T.copy()}
        if self.state_space is not None:
            seen["state"] = views.state_of(self.battle, self.last)
        return seen

    def step(self, action: Actions) -> Step:
        """Step all environments."""
        dice = self._started("step")
        chosen = self._check(plain_actions(self.groups, action)["action"])
        battle, allies = self.battle, self.battle.allies
        row: dict[str, Array] = {**self._seen, "action": chosen}
        orders = chosen.T
        before = battle.hit_points.copy()
        battle.step(
            self._pushes.take(orders, axis=1),
            self._aims.take(orders),
            dice.uniform(slice(None), battle.units),
        )
        self.last[:] = orders
        self.time += 1

        alive = battle.hit_points > 0
        ours, theirs = np.asarray(alive[:allies].any(axis=0)), np.asarray(alive[allies:].any(axis=0))
        won, terminated = ours & ~theirs, ~(ours & theirs)
        truncated = (self.time >= self._limit) & ~terminated
        row["reward"] = self._value(before, alive, won, ~ours & theirs)
        row["terminated"], row["truncated"] = terminated, truncated
        info: dict[str, Array] = {
            "battle_won": won,
            "dead_allies": allies - alive[:allies].sum(axis=0),
            "dead_enemies": battle.enemies - alive[allies:].sum(axis=0),
        }
        seen = self._observe()
        ended = terminated | truncated
        if ended.any():
            row |= {f"final_{key}": value for key, value in seen.items()}
            notify(self.at_end, ended)
            self._begin(np.flatnonzero(ended), dice)
            battle.measure()
            seen = self._observe()
        self._seen = seen
        return Step(dict(seen), row, terminated, truncated, info)

    def _check(self, action: Any) -> Array:
        chosen = choices("action", action, (self.num_envs, self.battle.allies), self._choices)
        allowed = np.take_along_axis(self._allowed, chosen[:, :, None], axis=2)
        if not allowed.all():
            env, agent, _ = np.argwhere(~allowed)[0]
            remedy = f"avail_actions[{env}, {agent}] allows {np.flatnonzero(self._allowed[env, agent])}."
            raise OptionError(f"action[{env}, {agent}]", "be available", chosen[env, agent], remedy)
        return chosen

    def _value(self, before: Array, alive: Array, won: Array, lost: Array) -> Array:
        """The reward of a step, ``[E]``."""
        if self._reward == "sparse":
            return won.astype(np.float32) - lost
        allies = self.battle.allies
        taken = before - self.battle.hit_points
        killed = (before > 0) & ~alive
        value = taken[allies:].sum(axis=0) + _KILL * killed[allies:].sum(axis=0) + _WIN * won
        if self._reward == "losses":
            value -= 0.5 * (taken[:allies].sum(axis=0) + _KILL * killed[:allies].sum(axis=0))
        return (value * self._scale).astype(np.float32)

    def render(self, index: int = 0) -> Array:
        """An image of one battle, RGB bytes."""
        from relive.envs.marines.drawing import draw

        return draw(self.battle, index)

    def legend(self, _index: int = 0) -> list[LegendEntry]:
        """Allies and enemies."""
        from relive.envs.marines.drawing import LEGEND

        return list(LEGEND)

    def _own(self) -> dict[str, Array]:
        battle = self.battle
        return {
            "pos": battle.pos,
            "hit_points": battle.hit_points,
            "cooldown": battle.cooldown,
            "prey": battle.prey,
            "shot": battle.shot,
            "time": self.time,
            "last": self.last,
        }
