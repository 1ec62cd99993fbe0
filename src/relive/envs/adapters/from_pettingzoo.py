"""Adapter of PettingZoo parallel environments."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from relive.envs.adapters.single_env import SingleStep, flat, is_number, leaves, nest, seed31, stack
from relive.envs.checks import check_shape
from relive.envs.interface import AgentGroup
from relive.errors import MissingExtra, OptionError
from relive.schema.spaces import by_kind
from relive.types import Array

__all__ = ["FromPettingZoo", "MakePettingZoo"]


@final
class FromPettingZoo:
    """One PettingZoo parallel environment.

    Agents with equal spaces form a group. Absent agents are False in ``agent_mask`` and observe zeros; an agent that
    ends while others continue is absent from then on, with its final observation after its last step (whether it
    terminated or was truncated is not stored: only whole environments are truncated). Action masks come from
    ``action_mask`` beside the ``observation``, or from the infos. ``state()`` is used where there is one.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.name = str(env.metadata.get("name", type(env.unwrapped).__name__))
        self._ids = {str(agent): agent for agent in env.possible_agents}
        obs = {name: env.observation_space(agent) for name, agent in self._ids.items()}
        self._masked = {name: _has_mask(space) for name, space in obs.items()}
        self._spaces = {name: _without_mask(space) for name, space in obs.items()}
        _, infos = env.reset()
        informed = {name: "action_mask" in (infos.get(agent) or {}) for name, agent in self._ids.items()}
        actions = {name: env.action_space(agent) for name, agent in self._ids.items()}
        self.groups = tuple(
            AgentGroup(
                name,
                agents,
                self._spaces[agents[0]],
                actions[agents[0]],
                avail=any(self._masked[agent] or informed[agent] for agent in agents),
                mask=True,
            )
            for name, agents in by_kind(self._spaces, actions).items()
        )
        self.state_space = self._find_state()
        self.shared_reward = False
        limit = getattr(env.unwrapped, "max_cycles", None)
        self.max_episode_steps = int(limit) if isinstance(limit, (int, np.integer)) else None

    def _find_state(self) -> Space[Any] | None:
        try:
            state = np.asarray(self._env.state())
        except (NotImplementedError, AttributeError, TypeError):
            return None
        if state.dtype.kind not in "biuf":
            return None
        found: Space[Any] = getattr(self._env, "state_space", None) or spaces.Box(-np.inf, np.inf, state.shape)
        return found

    def reset(self, seed: int | None = None) -> dict[str, Array]:
        """Reset the environment."""
        obs, infos = self._env.reset(seed=seed31(seed))
        return self._see(_named(obs), _named(infos), {str(agent) for agent in self._env.agents})

    def step(self, action: Mapping[str, Array]) -> SingleStep:
        """Step the agents alive."""
        present = {str(agent) for agent in self._env.agents}
        chosen: dict[str, Any] = {}
        for group in self.groups:
            own = {
                k: v for k, v in action.items() if k == group.key("action") or k.startswith(f"{group.key('action')}/")
            }
            for place, agent in enumerate(group.agents):
                if agent in present:
                    chosen[self._ids[agent]] = nest(
                        group.action_space, {key: value[place] for key, value in own.items()}, group.key("action")
                    )
        obs, rewards, terminated, truncated, infos = map(_named, self._env.step(chosen))
        left = {str(agent) for agent in self._env.agents}
        over = not left or all(terminated.get(agent) or truncated.get(agent) for agent in present | left)
        cut = any(truncated.get(agent) and not terminated.get(agent) for agent in present)
        there = {agent for agent in (present if over else left) if not terminated.get(agent)}
        reward = {
            group.key("reward"): np.array([rewards.get(agent, 0.0) for agent in group.agents], np.float32)
            for group in self.groups
        }
        return SingleStep(self._see(obs, infos, there), reward, over and not cut, over and cut, _shared(infos))

    def _see(self, obs: Mapping[str, Any], infos: Mapping[str, Any], there: set[str]) -> dict[str, Array]:
        seen: dict[str, Array] = {}
        for group in self.groups:
            key = group.key("obs")
            parts = []
            for agent in group.agents:
                if agent in obs:
                    value = obs[agent]
                    if self._masked[agent] and not isinstance(group.obs_space, spaces.Dict):
                        value = value["observation"]
                    parts.append(flat(group.obs_space, value, key))
                    for name, space in leaves(group.obs_space, key).items():
                        check_shape(f"{name} of {agent} of {self.name}", parts[-1][name], space.shape or ())
                else:
                    parts.append(_nothing(group.obs_space, key))
            seen |= stack(parts)
            seen[group.key("agent_mask")] = np.array([agent in there for agent in group.agents])
            if group.avail:
                masks = [self._allowed(agent, obs, infos, group, there) for agent in group.agents]
                seen[group.key("avail_actions")] = np.stack(masks)
        if self.state_space is not None:
            seen["state"] = np.array(self._env.state())
        return seen

    def _allowed(
        self, agent: str, obs: Mapping[str, Any], infos: Mapping[str, Any], group: AgentGroup, there: set[str]
    ) -> Array:
        """An agent's action mask; absent agents have the first action only, which is ignored."""
        size = int(group.action_space.n)
        if agent not in there:
            return np.arange(size) == 0
        if self._masked[agent] and agent in obs:
            return np.asarray(obs[agent]["action_mask"]) > 0
        if "action_mask" in (infos.get(agent) or {}):
            return np.asarray(infos[agent]["action_mask"]) > 0
        return np.ones(size, bool)

    def render(self) -> Array:
        """An image, if the environment was made with ``render_mode="rgb_array"``."""
        picture = self._env.render()
        if not isinstance(picture, np.ndarray):
            raise OptionError(
                "render_mode", "be 'rgb_array' for a picture", repr(getattr(self._env, "render_mode", None))
            )
        return picture

    def close(self) -> None:
        """Close it."""
        self._env.close()


@final
class MakePettingZoo:
    """Makes one parallel environment: of a module with a ``parallel_env`` (``mpe2.simple_v3``), or by PettingZoo's id
    (``sisl/pursuit-v5``). Picklable.
    """

    def __init__(self, module: str, options: Mapping[str, Any]) -> None:
        self._module, self._options = module, dict(options)

    def __call__(self) -> FromPettingZoo:
        """Make it."""
        if "/" in self._module:
            return FromPettingZoo(_registered(self._module, self._options))
        try:
            module = importlib.import_module(self._module)
        except ImportError as error:
            raise OptionError(
                "environment", "name a module that can be imported", repr(self._module), str(error)
            ) from None
        if not hasattr(module, "parallel_env"):
            raise OptionError("environment", "name a module with a parallel_env", repr(self._module))
        return FromPettingZoo(module.parallel_env(**self._options))


def _registered(name: str, options: Mapping[str, Any]) -> Any:
    try:
        import pettingzoo
    except ImportError:
        raise MissingExtra("pettingzoo", "envs") from None
    try:
        return pettingzoo.make("parallel", name, **options)
    except AttributeError:
        remedy = "Name a module instead, such as pettingzoo.sisl.pursuit_v4."
        raise OptionError("pettingzoo", "be 1.27 or newer to make environments by id", "an older one", remedy) from None
    except Exception as error:
        raise OptionError("environment", "be one that PettingZoo can make", repr(name), str(error)) from error


def _has_mask(space: Space[Any]) -> bool:
    return isinstance(space, spaces.Dict) and "action_mask" in space.spaces and len(space.spaces) > 1


def _without_mask(space: Space[Any]) -> Space[Any]:
    """The observation space without the action mask; ``observation`` alone if nothing else is left."""
    if not _has_mask(space) or not isinstance(space, spaces.Dict):
        return space
    rest = {key: inner for key, inner in space.spaces.items() if key != "action_mask"}
    return rest["observation"] if set(rest) == {"observation"} else spaces.Dict(rest)


def _named(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Values by the agents' names as strings."""
    return {str(agent): value for agent, value in values.items()}


def _nothing(space: Space[Any], key: str) -> dict[str, Array]:
    """Zeros in the shape of an observation."""
    if isinstance(space, spaces.Dict):
        parts = [_nothing(inner, f"{key}/{name}") for name, inner in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [_nothing(inner, f"{key}/{i}") for i, inner in enumerate(space.spaces)]
    else:
        return {key: np.zeros(space.shape or (), space.dtype)}
    return {name: part for found in parts for name, part in found.items()}


def _shared(infos: Mapping[str, Any]) -> dict[str, Any]:
    """Numeric infos, each agent's under its name."""
    return {
        f"{agent}/{key}": value
        for agent, info in infos.items()
        if isinstance(info, Mapping)
        for key, value in info.items()
        if is_number(value)
    }
