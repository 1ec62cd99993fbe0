"""Particle worlds with the interface of OpenAI's: lists with an entry for each agent."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium import spaces

from relive import envs
from relive.errors import OptionError
from relive.types import Array

__all__ = ["ListEnv", "make_env"]

_WITHOUT_END = 2**31 - 1


def make_env(scenario_name: str, benchmark: bool = False, *, seed: int | None = None, **options: Any) -> ListEnv:
    """A particle world by its name, such as ``simple_spread``.

    Args:
        benchmark: Whether ``info_n["n"]`` holds what the world reports; there is an entry for each agent in any case.
        options: Of the world, as of ``relive.envs.make``.
    """
    return ListEnv(scenario_name, benchmark=benchmark, seed=seed, **options)


@final
class ListEnv:
    """One environment without a time limit, in which bodies move as in OpenAI's worlds."""

    def __init__(self, name: str, *, benchmark: bool = False, seed: int | None = None, **options: Any) -> None:
        options = {"velocity_first": True, **options, "raw_actions": True, "max_cycles": _WITHOUT_END}
        self.world: Any = envs.make(name, num_envs=1, **options)
        self._seed, self._benchmark = seed, benchmark
        self._groups = self.world.groups
        self.agents = [agent for group in self._groups for agent in group.agents]
        self.n = len(self.agents)
        self.observation_space = [group.obs_space for group in self._groups for _ in group.agents]
        self.action_space = [_choices(group.action_space) for group in self._groups for _ in group.agents]
        self._lengths = [group.action_space.shape[0] for group in self._groups for _ in group.agents]

    def seed(self, seed: int | None = None) -> None:
        """Begin with this seed at the next reset."""
        self._seed = seed

    def reset(self) -> list[Array]:
        """Begin a new episode; what every agent sees."""
        seen = self.world.reset(seed=self._seed)
        self._seed = None
        return self._by_agent(seen, "obs")

    def step(self, action_n: Any) -> tuple[list[Array], list[float], list[bool], dict[str, Any]]:
        """What every agent sees, its reward, whether its episode is over, and ``{"n": [...]}``.

        Args:
            action_n: For each agent five numbers (nothing, right, left, up, down) and its words, if it speaks; or the
                number of the one of these that it chooses.
        """
        if len(action_n) != self.n:
            raise OptionError("action_n", f"have an action for each of {self.n} agents", len(action_n))
        vectors = [_vector(i, action, self._lengths[i]) for i, action in enumerate(action_n)]
        actions, first = {}, 0
        for group in self._groups:
            last = first + len(group.agents)
            actions[group.key("action")] = np.array(vectors[first:last])[None]
            first = last
        done = self.world.step(actions)
        rewards = [float(value) for value in self._by_agent(done.row, "reward")]
        report_of = self.world.scenario.report
        report = report_of(self.world) if self._benchmark and report_of is not None else {}
        info = {key: value[0] for key, value in report.items()}
        return self._by_agent(done.obs, "obs"), rewards, [bool(done.terminated[0])] * self.n, {"n": [info] * self.n}

    def _by_agent(self, values: Any, field: str) -> list[Any]:
        return [value for group in self._groups for value in values[group.key(field)][0]]

    def render(self, mode: str = "rgb_array") -> list[Array]:  # noqa: ARG002 - theirs has it
        """A list of one picture."""
        return [self.world.render()]

    def close(self) -> None:
        """Nothing is held open."""
        self.world.close()


def _choices(space: Any) -> spaces.Space[Any]:
    """Theirs tell how many numbers an action has by a space of choices."""
    return spaces.Discrete(space.shape[0])


def _vector(agent: int, action: Any, length: int) -> Array:
    array = np.asarray(action.detach().cpu() if hasattr(action, "detach") else action)
    if array.ndim == 0 and array.dtype.kind in "iu" and 0 <= array < length:
        return np.asarray(np.eye(length)[array])
    if array.shape != (length,) or array.dtype.kind not in "biuf":
        raise OptionError(f"action_n[{agent}]", f"be {length} numbers, or one from 0 to {length - 1}", repr(action))
    return array.astype(np.float64)
