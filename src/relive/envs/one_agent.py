"""Single-agent environments, without the agent axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from gymnasium import Space

from relive.envs.interface import (
    AgentGroup,
    Env,
    Goals,
    HasFrameRate,
    HasLegend,
    Reports,
    ShowsEnds,
    Snapshots,
    Step,
    as_actions,
    numbers,
    schema_of,
)
from relive.errors import OptionError
from relive.types import Actions, Array

__all__ = ["OneAgent"]


@final
class OneAgent:
    """Vectorised environments for single-agent algorithms: ``obs [E, ...]``, ``reward [E]``.

    Args:
        env: Environments with one agent each.

    >>> from relive import envs
    >>> OneAgent(envs.make("CartPole-v1", num_envs=8)).schema
    Schema(obs: float32[4], action: uint8, reward: float32)
    """

    def __init__(self, env: Env) -> None:
        agents = sum(len(group) for group in env.groups)
        if agents != 1:
            remedy = "Choose an algorithm of many agents: `relive algorithms` lists them."
            raise OptionError("environment", "have one agent", f"{env.name!r} with {agents}", remedy)
        self._env, (group,) = env, env.groups
        self.name, self.num_envs, self.max_episode_steps = env.name, env.num_envs, env.max_episode_steps
        self.state_space: Space[Any] | None = None
        self.shared_reward = True
        spaces = {"obs_space": group.obs_space, "action_space": group.action_space}
        self.groups: tuple[AgentGroup, ...] = (AgentGroup("", group.agents, **spaces, avail=group.avail, alone=True),)
        self.schema = schema_of(self.groups, None, shared_reward=True)
        self._as_is = {"terminated", "truncated", "lanes"} | ({"reward"} if env.shared_reward else set())
        self._prefix = f"{group.name}/" if group.name else ""
        kept = {column.key for column in self.schema} | {column.final_key for column in self.schema if column.final_key}
        self._names = {self._prefix + name: name for name in kept} | {name: name for name in self._as_is}
        self.report_names: tuple[str, ...] = env.report_names if isinstance(env, Reports) else ()
        self.at_end: Callable[[int], None] | None = None
        """Called with the index of an environment whose episode ended, while ``render`` still shows its last state."""
        if isinstance(env, ShowsEnds):
            env.at_end = lambda index: self.at_end(index) if self.at_end is not None else None
        if isinstance(env, Goals):
            self.compute_reward, self.compute_terminated = env.compute_reward, env.compute_terminated
        if isinstance(env, HasFrameRate):
            self.render_fps = env.render_fps
        if isinstance(env, HasLegend):
            self.legend = env.legend
        if isinstance(env, Snapshots):  # so that isinstance(self, Snapshots) holds for the same environments
            self.snapshot = env.snapshot
            self.restore = lambda state: self._one(env.restore(state))

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Reset all environments and return their observations."""
        return self._one(self._env.reset(seed))

    def step(self, action: Actions) -> Step:
        """Step all environments with actions ``[E, ...]``."""
        given = {key: numbers(key, value) for key, value in as_actions(self.groups, action).items()}
        for key, value in given.items():
            if value.shape[:1] != (self.num_envs,):
                raise OptionError(key, f"have an entry for each of {self.num_envs} environments", list(value.shape))
        step = self._env.step({self._prefix + key: value[:, None] for key, value in given.items()})
        return Step(self._one(step.obs), self._one(step.row), step.terminated, step.truncated, step.info)

    def _one(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays without the agent axis."""
        found = {}
        for key, value in arrays.items():
            name = self._names.get(key)
            if name is not None:
                found[name] = value if name in self._as_is else value[:, 0]
        return found

    def render(self, index: int = 0) -> Array:
        """An image of one environment, RGB bytes."""
        return self._env.render(index)

    def close(self) -> None:
        """Release resources."""
        self._env.close()
