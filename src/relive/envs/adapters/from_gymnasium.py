"""Adapters of Gymnasium environments, single and vectorised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from relive.envs.adapters.from_gymnasium_agents import FromGymnasiumAgents, has_agents
from relive.envs.adapters.single_env import Rendered, SingleStep, flat, leaves, nest, seed31
from relive.envs.adapters.sync import action_rules, check_actions, check_started, final_names
from relive.envs.checks import check_shape, guarded
from relive.envs.dice import seeds_for
from relive.envs.interface import AgentGroup, Step, as_actions, schema_of
from relive.errors import EnvError, MissingExtra, OptionError, install_hint
from relive.types import Actions, Array

__all__ = ["FromGymnasium", "FromGymnasiumVector", "MakeGymnasium"]


@final
class FromGymnasium(Rendered):
    """One single-agent Gymnasium environment.

    An ``action_mask`` in its infos, as in Taxi, becomes ``avail_actions``.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self._obs_space, self._action_space = (
            env.observation_space,
            env.action_space,
        )  # cached: wrappers look spaces up through every layer
        self._shapes = {key: space.shape or () for key, space in leaves(self._obs_space, "obs").items()}
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self._masked = _has_mask(env)
        self.groups: tuple[AgentGroup, ...] = (
            AgentGroup("", ("agent",), self._obs_space, self._action_space, avail=self._masked),
        )
        self.state_space: Space[Any] | None = None
        self.shared_reward = False
        self.max_episode_steps = env.spec.max_episode_steps if env.spec is not None else None
        if env.metadata.get("render_fps"):
            self.render_fps = float(env.metadata["render_fps"])
        plain: Any = env.unwrapped
        if hasattr(plain, "compute_reward"):
            self.compute_reward = plain.compute_reward
            self.compute_terminated = getattr(plain, "compute_terminated", lambda *_: False)

    def reset(self, seed: int | None = None) -> dict[str, Array]:
        """Reset the environment."""
        obs, info = self._env.reset(seed=seed31(seed))
        return self._see(obs, info)

    def step(self, action: Mapping[str, Array]) -> SingleStep:
        """Step the environment."""
        chosen = nest(self._action_space, {key: value[0] for key, value in action.items()}, "action")
        obs, reward, terminated, truncated, info = self._env.step(chosen)
        value = np.array(reward, np.float32).reshape(1)
        return SingleStep(self._see(obs, info), {"reward": value}, bool(terminated), bool(truncated), info)

    def _see(self, obs: Any, info: Mapping[str, Any]) -> dict[str, Array]:
        parts = flat(self._obs_space, obs, "obs")
        for key, shape in self._shapes.items():
            if parts[key].shape != shape:
                check_shape(f"{key} of {self.name}", parts[key], shape)
        if self._masked:
            if _MASK not in info:
                there = ", ".join(info) or "nothing"
                raise EnvError(f"info of {self.name}", f"have an {_MASK}, as it had before", there)
            mask = np.asarray(info[_MASK]) > 0
            parts["avail_actions"] = check_shape(f"{_MASK} of {self.name}", mask, (int(self._action_space.n),))
        return {key: value[None] for key, value in parts.items()}


_MASK = "action_mask"


def _has_mask(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether infos have an action mask, which only a reset shows."""
    if not isinstance(env.action_space, spaces.Discrete):
        return False
    try:
        _, info = env.reset()
    except Exception:
        return False  # the first real reset reports the error
    return _MASK in info


@final
class MakeGymnasium:
    """Makes one registered Gymnasium environment; picklable."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name, self._options = name, dict(options)

    def __call__(self) -> FromGymnasium | FromGymnasiumAgents:
        """Make it."""
        try:
            if self._name.startswith("ALE/"):
                return _atari(self._name, self._options)
            env = gymnasium.make(self._name, **self._options)
            if not has_agents(env):
                return FromGymnasium(env)
            env.close()  # without the passive checker, which warns of per-agent rewards
            return FromGymnasiumAgents(gymnasium.make(self._name, **{"disable_env_checker": True, **self._options}))
        except (gymnasium.error.Error, TypeError, ImportError) as error:
            extra = next((extra for word, extra in _EXTRAS.items() if word in str(error).lower()), "")
            remedy = install_hint(extra) if extra else str(error)
            raise OptionError("environment", "be one that Gymnasium can make", repr(self._name), remedy) from error


_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "pygame": "envs"}
"""Extras of ours, by words of Gymnasium's complaints about what is not installed."""


_FRAMES = 108_000  # after which the emulator truncates an episode
_PREPROCESSING = ("noop_max", "frame_skip", "screen_size", "terminal_on_life_loss", "grayscale_obs")


def _atari(name: str, options: Mapping[str, Any]) -> FromGymnasium:
    """An Atari game with Gymnasium's preprocessing: greyscale, 84 x 84, frame skip 4, without life-loss terminations.

    With ``frame_stack`` an observation is a stack of frames, for rollouts: a replay memory stacks when it is read.
    """
    try:
        import ale_py
        import cv2  # noqa: F401 - what Gymnasium scales frames with
    except ImportError:
        raise MissingExtra("ale-py and opencv-python-headless", "atari") from None
    gymnasium.register_envs(ale_py)
    own = {key: value for key, value in options.items() if key in _PREPROCESSING}
    game = {key: value for key, value in options.items() if key not in (*_PREPROCESSING, "frame_stack")}
    env: gymnasium.Env[Any, Any] = AtariPreprocessing(gymnasium.make(name, **{"frameskip": 1, **game}), **own)
    frames = options.get("frame_stack", 1)
    if not isinstance(frames, (int, float)) or frames < 1 or frames != int(frames):
        raise OptionError("frame_stack", "be a whole number of frames, at least 1", repr(frames))
    if frames > 1:
        env = FrameStackObservation(env, int(frames), padding_type="reset")
    made = FromGymnasium(env)
    most = game.get("max_num_frames_per_episode", _FRAMES)
    made.max_episode_steps = made.max_episode_steps or -(-most // own.get("frame_skip", 4))
    return made


@final
class FromGymnasiumVector:
    """A Gymnasium vector environment with any autoreset mode.

    ``NEXT_STEP``: the step after an episode's end only resets the environment and ignores the action. Such a step is
    not in ``row``, which then has ``lanes``: those that stepped. ``SAME_STEP`` and ``DISABLED`` (where the adapter
    calls reset) reset at once, as all other environments do.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self._envs = envs
        self.num_envs = int(envs.num_envs)
        spec = envs.spec
        self.name = spec.id if spec is not None else type(envs).__name__
        self.max_episode_steps = spec.max_episode_steps if spec is not None else None
        self.groups: tuple[AgentGroup, ...] = (
            AgentGroup("", ("agent",), envs.single_observation_space, envs.single_action_space),
        )
        self.state_space: Space[Any] | None = None
        self.shared_reward = False
        self.schema = schema_of(self.groups, None, shared_reward=False)
        mode = envs.metadata.get("autoreset_mode")
        if mode not in list(AutoresetMode):
            rule = "state their autoreset mode in metadata['autoreset_mode']"
            raise OptionError("envs", rule, repr(mode), "Set it to a gymnasium.vector.AutoresetMode.")
        self._mode = AutoresetMode(mode)
        self._seen: dict[str, Array] = {}
        self._finals = final_names(self.schema)
        self._rules = action_rules(self.groups, self.num_envs)
        self._over = np.zeros(self.num_envs, bool)

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Reset all environments and return their observations."""
        obs, _ = self._envs.reset(seed=None if seed is None else self._seeds(seed))
        self._over[:] = False
        self._seen = self._see(obs)
        return dict(self._seen)

    def _seeds(self, seed: int | Sequence[int]) -> int | list[int]:
        """A seed for each environment, or a single one for vector environments that take no list."""
        if isinstance(self._envs.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
            return [int(seed31(one) or 0) for one in seeds_for(seed, self.num_envs)]
        if not isinstance(seed, (int, np.integer)):
            rule = f"be one number for {self.name}, which takes one for all its environments"
            raise OptionError("seed", rule, "a list")
        return int(seed31(seeds_for(seed, 1)[0]) or 0)

    def step(self, action: Actions) -> Step:
        """Step all environments."""
        check_started(self._seen)
        given = check_actions(self._rules, as_actions(self.groups, action))
        chosen = nest(self._envs.single_action_space, {key: value[:, 0] for key, value in given.items()}, "action")
        obs, reward, terminated, truncated, info = guarded(self.name, "step", lambda: self._envs.step(chosen))
        seen = self._see(obs)
        live = ~self._over
        terminated, truncated = terminated & live, truncated & ~terminated & live
        ended = terminated | truncated
        row: dict[str, Array] = {**self._seen, **given, "reward": np.array(reward, np.float32)[:, None]}
        row["terminated"], row["truncated"] = terminated, truncated
        if ended.any():
            final = self._final(seen, info, ended) if self._mode is AutoresetMode.SAME_STEP else seen
            row |= {self._finals[key]: value for key, value in final.items()}
            if self._mode is AutoresetMode.DISABLED:
                obs, _ = self._envs.reset(options={"reset_mask": ended})
                seen = self._see(obs)
        if self._mode is AutoresetMode.NEXT_STEP:
            if not live.all():
                lanes = np.flatnonzero(live)
                row = {"lanes": lanes, **{key: value[lanes] for key, value in row.items()}}
            self._over = ended
        self._seen = seen
        return Step(dict(seen), row, terminated, truncated, self._report(info, ended))

    def _report(self, info: Mapping[str, Any], ended: Array) -> dict[str, Any]:
        """Numeric infos; where an episode ended and was reset at once, those of its last step."""
        found = {k: v.copy() for k, v in info.items() if _numbers(v) and not k.startswith("_")}
        last = info.get("final_info")
        if self._mode is AutoresetMode.SAME_STEP and isinstance(last, Mapping):
            for key, value in last.items():
                if _numbers(value) and not key.startswith("_"):
                    now = found.get(key, np.zeros_like(value))
                    found[key] = np.where(ended.reshape(-1, *[1] * (value.ndim - 1)), value, now)
        return found

    def _see(self, obs: Any) -> dict[str, Array]:
        parts = flat(self._envs.single_observation_space, obs, "obs")
        return {key: value[:, None] for key, value in parts.items()}

    def _final(self, seen: Mapping[str, Array], info: Mapping[str, Any], ended: Array) -> dict[str, Array]:
        given = info.get("final_obs")
        if given is None:
            raise EnvError(self.name, "have final_obs in its infos where an episode ends", "none")
        if isinstance(given, (Mapping, tuple)):
            return self._see(given)
        final = {key: value.copy() for key, value in seen.items()}
        for index in np.flatnonzero(ended):
            for key, value in flat(self._envs.single_observation_space, given[index], "obs").items():
                final[key][index, 0] = value
        return final

    def render(self, index: int = 0) -> Array:
        """An image of one environment, if they were made with ``render_mode="rgb_array"``."""
        pictures = self._envs.render()
        if pictures is None:
            raise OptionError("render_mode", "be 'rgb_array' for a picture", repr(self._envs.render_mode))
        return np.asarray(pictures[index])

    def close(self) -> None:
        """Close all."""
        self._envs.close()


def _numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
