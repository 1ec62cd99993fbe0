"""The physics of particle worlds: bodies that move, collide and communicate, vectorised.

The physics are mpe2's. Positions are ``[bodies, 2, E]``, agents first; environments are the last axis, so that every
operation is vectorised over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.built_in import BuiltIn
from relive.envs.dice import Dice
from relive.envs.interface import AgentGroup, LegendEntry, Step, notify, plain_actions, schema_of
from relive.envs.options import positive
from relive.envs.particle.actions import Controls
from relive.envs.particle.bodies import Agent, Landmark, Scenario
from relive.types import Actions, Array

__all__ = ["World"]

_DT = 0.1
_KEPT_SPEED = 1 - 0.25
_CONTACT_FORCE = 1e2
_CONTACT_MARGIN = 1e-3
_PADDING = 16  # transposing an array with a stride of a power of two is several times slower
_NO_FORCE = -40.0  # margins of depth beyond which the soft wall's force is below rounding


@final
class World(BuiltIn):
    """Vectorised environments of one scenario.

    Args:
        max_cycles: Steps of an episode.
        velocity_first: Semi-implicit Euler as in OpenAI's first worlds: positions use the updated velocity; mpe2 uses
            the previous one.
        continuous_actions: Forces and symbols as numbers from 0 to 1 instead of discrete actions.
        raw_actions: Actions as OpenAI's worlds take them: any numbers, the second of five pushing right and the third
            left.
        state: Whether the concatenated observations of all agents are also given as ``state``.
    """

    def __init__(
        self,
        scenario: Scenario,
        num_envs: int = 1,
        *,
        max_cycles: int = 25,
        continuous_actions: bool = False,
        state: bool = False,
        velocity_first: bool = False,
        raw_actions: bool = False,
    ) -> None:
        self._velocity_first = velocity_first
        self.name = scenario.name
        self.num_envs: int = positive("num_envs", num_envs)
        self._limit: int = positive("max_cycles", max_cycles)
        self.max_episode_steps: int | None = self._limit
        self.shared_reward = False
        self.scenario = scenario
        agents = scenario.agents
        bodies: tuple[Agent | Landmark, ...] = (*agents, *scenario.landmarks)
        self.num_agents = len(agents)
        self.pos = np.zeros((len(bodies), 2, self.num_envs))
        self.vel = np.zeros((len(agents), 2, self.num_envs))
        self.said = np.zeros((len(agents), scenario.words, self.num_envs))
        self.time = np.zeros(self.num_envs, np.int64)
        self.offset = np.zeros((len(agents), *self.pos.shape))
        """From each agent to each body, ``[A, bodies, 2, E]``."""
        self.distance = np.zeros((len(agents), len(bodies), self.num_envs))
        """Between each agent and each body, ``[A, bodies, E]``."""
        self._square = np.empty_like(self.offset)

        self._controls = Controls(agents, scenario.words, continuous=continuous_actions, raw=raw_actions)
        self._force = np.zeros((len(agents), 2, self.num_envs))
        self._moves = np.array([agent.moves for agent in agents])
        self._all_move = bool(self._moves.all())
        speeds = [agent.max_speed or np.inf for agent in agents]
        self._max_speed = np.array(speeds)[:, None] if np.isfinite(speeds).any() else None
        sizes = np.array([body.size for body in bodies])
        pairs = [
            (a, b)
            for a in range(len(agents))
            for b in range(a + 1, len(bodies))
            if agents[a].collides and bodies[b].collides and (agents[a].moves or (b < len(agents) and agents[b].moves))
        ]
        self._pairs = np.array([a * len(bodies) + b for a, b in pairs], np.intp)
        self._touch = np.array([[sizes[a] + sizes[b]] for a, b in pairs])
        self._near = np.empty((len(pairs), self.num_envs))
        self._away = np.empty((len(pairs), 2, self.num_envs))
        self._pushes = np.zeros((2 * len(pairs) + 1, 2, self.num_envs))
        self._pushed = _who_is_pushed(pairs, agents)
        self.touching = sizes[:, None] + sizes
        """Distance at which two bodies touch, ``[bodies, bodies]``."""
        self._spread = np.array([*(1.0 for _ in agents), *(mark.spread for mark in scenario.landmarks)])[:, None, None]

        self.at_end: Callable[[int], None] | None = None
        """Called with the index of an environment whose episode ended, while ``render`` still shows its last state."""
        self.drawn = {name: np.zeros(self.num_envs, np.int64) for name in scenario.draws}
        """Each episode's random draws, by the scenario's names."""
        self._spans = self._group_spans()
        self._buffers: dict[str, Array] = {}
        for key, (first, last) in self._spans.items():
            length = sum(len(part) for part in scenario.see(self, first))
            padded = np.empty((last - first, length, self.num_envs + _PADDING), np.float32)
            self._buffers[key] = padded[:, :, : self.num_envs]
        self.groups = tuple(self._group(key, first, last) for key, (first, last) in self._spans.items())
        self._keys = [(group.key("obs"), group.key("reward"), *self._spans[group.name]) for group in self.groups]
        width = sum(buffer.shape[0] * buffer.shape[1] for buffer in self._buffers.values())
        self.state_space: Space[Any] | None = _endless(width) if state else None
        self.schema = schema_of(self.groups, self.state_space, shared_reward=False)
        self._seen: dict[str, Array] = {}

    def _group_spans(self) -> dict[str, tuple[int, int]]:
        stems = [agent.name.rpartition("_")[0] for agent in self.scenario.agents]
        spans = {stem: (stems.index(stem), stems.index(stem) + stems.count(stem)) for stem in dict.fromkeys(stems)}
        return {"": (0, len(stems))} if len(spans) == 1 else spans

    def _group(self, name: str, first: int, last: int) -> AgentGroup:
        names = tuple(agent.name for agent in self.scenario.agents[first:last])
        return AgentGroup(name, names, _endless(self._buffers[name].shape[1]), self._controls.space(first))

    # ---- playing ---------------------------------------------------------------------------------------------------

    def _begin(self, rows: Array, dice: Dice) -> None:
        dice.begin(rows)
        bodies = len(self.pos)
        places = dice.uniform(rows, 2 * bodies).reshape(bodies, 2, -1)
        self.pos[:, :, rows] = (2 * places - 1) * self._spread
        self.vel[:, :, rows] = 0
        self.said[:, :, rows] = 0
        self.time[rows] = 0
        for name, bound in self.scenario.draws.items():
            self.drawn[name][rows] = dice.integers(rows, 1, bound)[0]
        if self.scenario.begin is not None:
            self.scenario.begin(self, rows, dice)

    def look(self) -> dict[str, Array]:
        """Observations recomputed from the bodies, for use after writing to ``pos``, ``vel`` or ``said``."""
        self._measure()
        self._seen = self._observe()
        return dict(self._seen)

    def step(self, action: Actions) -> Step:
        """Step all environments."""
        dice = self._started("step")
        given = plain_actions(self.groups, action)
        row: dict[str, Array] = dict(self._seen)
        pushes = []
        for group in self.groups:
            key = group.key("action")
            first, last = self._spans[group.name]
            row[key], decoded = self._controls.decode(key, given[key], first, last, self.num_envs)
            pushes.append((first, last, decoded))
        self._advance(pushes)

        rewards = np.ascontiguousarray(self.scenario.reward(self).T, np.float32)
        self.time += 1
        truncated = self.time >= self._limit
        succeeded = self.scenario.succeeded
        terminated = np.zeros(self.num_envs, bool) if succeeded is None else succeeded(self) & ~truncated
        for obs, reward, first, last in self._keys:
            row[reward] = rewards if obs == "obs" else rewards[:, first:last]
        row["terminated"], row["truncated"] = terminated, truncated
        info: dict[str, Array] = {}
        seen = self._observe()
        ended = truncated if succeeded is None else truncated | terminated
        if ended.any():
            for key, value in seen.items():
                above, slash, field = key.rpartition("/")
                row[f"{above}{slash}final_{field}"] = value
            info = self.scenario.report(self) if self.scenario.report is not None else {}
            notify(self.at_end, ended)
            self._begin(np.flatnonzero(ended), dice)
            self._measure()
            seen = self._observe()
        self._seen = seen
        return Step(dict(seen), row, terminated, truncated, info)

    def render(self, index: int = 0) -> Array:
        """An image of one environment, RGB bytes."""
        from relive.envs.particle.drawing import draw

        return draw(self, index)

    def legend(self, index: int = 0) -> list[LegendEntry]:
        """Groups of agents with their numbers, and kinds of landmarks, by colour."""
        from relive.envs.particle.drawing import legend

        return legend(self, index)

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def _own(self) -> dict[str, Array]:
        own = {"pos": self.pos, "vel": self.vel, "said": self.said, "time": self.time}
        return own | {f"drawn/{name}": value for name, value in self.drawn.items()}

    # ---- physics ---------------------------------------------------------------------------------------------------

    def _advance(self, pushes: list[tuple[int, int, tuple[Array | None, Array | None, Array | None]]]) -> None:
        force = self._force
        for first, last, (push_x, push_y, said) in pushes:
            if push_x is not None:
                force[first:last, 0] = push_x
                force[first:last, 1] = push_y
            if said is not None:
                self.said[first:last] = said
        if len(self._pairs):
            force = force + self._contact()
        if not self._velocity_first:
            self._move()
        vel = self.vel
        if self._all_move:
            vel *= _KEPT_SPEED
            force *= _DT
            vel += force
        else:
            moves = self._moves
            vel[moves] = vel[moves] * _KEPT_SPEED + force[moves] * _DT
        if self._max_speed is not None:
            speed = np.sqrt(vel[:, 0] * vel[:, 0] + vel[:, 1] * vel[:, 1])
            too_fast = speed > self._max_speed
            if too_fast.any():
                vel *= np.where(too_fast, self._max_speed / np.maximum(speed, 1e-12), 1.0)[:, None]
        if self._velocity_first:
            self._move()
        self._measure()

    def _move(self) -> None:
        if self._all_move:
            self.pos[: self.num_agents] += self.vel * _DT
        else:
            self.pos[: self.num_agents][self._moves] += self.vel[self._moves] * _DT

    def _contact(self) -> Array:
        """Contact forces between bodies, softened over a margin, ``[A, 2, E]``."""
        near, away = self._near, self._away
        # "clip" as the indices are known to be right and "raise" would go through a copy
        self.distance.reshape(-1, self.num_envs).take(self._pairs, axis=0, out=near, mode="clip")
        self.offset.reshape(-1, 2, self.num_envs).take(self._pairs, axis=0, out=away, mode="clip")
        depth = (self._touch - near) / _CONTACT_MARGIN
        touching = depth > _NO_FORCE
        push = np.zeros_like(near)
        push[touching] = np.logaddexp(0, depth[touching]) * _CONTACT_MARGIN / np.maximum(near[touching], 1e-12)
        push *= _CONTACT_FORCE
        pairs = len(self._pairs)
        np.multiply(away, push[:, None], out=self._pushes[:pairs])
        np.negative(self._pushes[:pairs], out=self._pushes[pairs:-1])
        # Summed in a fixed order: that of a matrix product depends on the number of environments.
        return np.asarray(self._pushes.take(self._pushed, axis=0).sum(axis=1))

    def _measure(self) -> None:
        np.subtract(self.pos, self.pos[: self.num_agents, None], out=self.offset)
        square = np.multiply(self.offset, self.offset, out=self._square)
        np.add(square[:, :, 0], square[:, :, 1], out=self.distance)
        np.sqrt(self.distance, out=self.distance)

    def _observe(self) -> dict[str, Array]:
        seen: dict[str, Array] = {}
        see = self.scenario.see
        for obs, _, first, last in self._keys:
            buffer = self._buffers[obs.rpartition("/")[0]]
            for place, me in enumerate(range(first, last)):
                np.concatenate(see(self, me), out=buffer[place])
            seen[obs] = buffer.transpose(2, 0, 1).copy()
        if self.state_space is not None:
            seen["state"] = np.concatenate([value.reshape(self.num_envs, -1) for value in seen.values()], axis=1)
        return seen

    # ---- helpers for scenarios -------------------------------------------------------------------------------------

    def others(self, me: int) -> list[int]:
        """All agents but this one."""
        return [agent for agent in range(self.num_agents) if agent != me]

    def to_agents(self, me: int) -> list[Array]:
        """From an agent to all others, ``[2, E]`` each."""
        offset = self.offset[me]
        return [offset[agent] for agent in range(self.num_agents) if agent != me]

    def to_landmarks(self, me: int) -> Array:
        """From an agent to all landmarks one after another, ``[2 * landmarks, E]``."""
        return self.offset[me, self.num_agents :].reshape(-1, self.num_envs)

    def nearest(self, me: int, bodies: Sequence[int], count: int) -> Array:
        """Which of some bodies are nearest to an agent, nearest first, ``[count or fewer, E]``."""
        order = np.argsort(self.distance[me, list(bodies)], axis=0)[:count]
        return np.asarray(bodies, np.intp)[order]

    def to_nearest(self, me: int, nearest: Array, count: int) -> Array:
        """From an agent to its nearest bodies, ``[2 * count, E]``, zero where there are fewer."""
        found = np.zeros((count, 2, self.num_envs))
        found[: len(nearest)] = np.take_along_axis(self.offset[me], nearest[:, None], axis=0)
        return found.reshape(-1, self.num_envs)


def _who_is_pushed(pairs: Sequence[tuple[int, int]], agents: Sequence[Agent]) -> Array:
    """For each agent the rows of forces on it, ``[A, most]``: pair p acts on its second body by row p and on its first
    by row p + pairs; the last row is zero.
    """
    found: list[list[int]] = [[] for _ in agents]
    for pair, (one, other) in enumerate(pairs):
        if agents[one].moves:
            found[one].append(pair + len(pairs))
        if other < len(agents) and agents[other].moves:
            found[other].append(pair)
    most = max((len(pushes) for pushes in found), default=0)
    return np.array([[*pushes, *[2 * len(pairs)] * (most - len(pushes))] for pushes in found], np.intp)


def _endless(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)
