"""Settings, memories and learners that algorithms of one agent share, and stacks of frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from relive.agents.checks import Bounds, check
from relive.agents.interface import Schedule
from relive.agents.replay import replay_memory
from relive.agents.settings import HindsightSettings, NetworkSettings, OptimizerSettings, PERSettings, ReplaySettings
from relive.agents.state import NetworkLearner, Networks, as_floats
from relive.envs.interface import Env, Goals
from relive.errors import OptionError
from relive.learn.schedules import linear
from relive.memory import Batch, FrameStack, Hindsight, Memory, Storage
from relive.tensors import TensorBatch, to_torch
from relive.types import Array, ArrayLike, Arrays

__all__ = ["ActorCriticSettings", "Frames", "TransitionLearner", "TransitionSettings", "observed_space"]


@dataclass(frozen=True)
class TransitionSettings(OptimizerSettings, HindsightSettings, PERSettings, ReplaySettings):
    """Off-policy learning of one agent from transitions: when updates are due, and the memory."""

    single_agent: ClassVar[bool] = True

    def schedule(self, _num_envs: int) -> Schedule:
        """When updates are due."""
        return Schedule(self.update_every, first=self.learning_starts)

    def memory(self, env: Env, *, lanes: int, seed: int, storage: Storage | None = None) -> Memory:
        """The replay memory: transitions of n steps, or relabelled in hindsight."""
        window = None if self.hindsight == "none" else self._hindsight(env)
        return replay_memory(self, env.schema, lanes=lanes, seed=seed, storage=storage, window=window)

    def _hindsight(self, env: Env) -> Hindsight:
        if self.n_step > 1:
            remedy = "Rewards in between would be of the old goal."
            raise OptionError("n_step", "be 1 with hindsight", self.n_step, remedy)
        if not isinstance(env, Goals):
            rule = "have compute_reward, and observations with achieved_goal and desired_goal, for hindsight"
            raise OptionError("environment", rule, repr(env.name))
        reward, terminated = (partial(_of_goals, judge) for judge in (env.compute_reward, env.compute_terminated))
        options: dict[str, Any] = {"reward": reward, "terminated": terminated, "gamma": self.gamma}
        return Hindsight(self.hindsight, self.hindsight_k, **options)  # type: ignore[arg-type]


def _of_goals(judge: Callable[..., Any], achieved: ArrayLike, desired: ArrayLike) -> Array:
    """A goal environment's function of each pair of goals, ``[B]``."""
    return np.broadcast_to(judge(achieved, desired, {}), np.shape(achieved)[:1])


@dataclass(frozen=True)
class ActorCriticSettings(NetworkSettings, TransitionSettings):
    """Off-policy actor-critic learning of one agent."""

    default_num_envs: ClassVar[int] = 1

    learning_starts: int = 5_000
    """Environment steps before the first update; their actions are uniform."""
    update_every: float = 1.0
    """Environment steps per update; below 1: several updates per step."""
    actor_lr: float = 1e-3
    """Learning rate of the policy."""
    critic_lr: float = 1e-3
    """Learning rate of the critics."""
    tau: float = 0.005
    """Polyak factor tau of the targets."""
    hidden: tuple[int, ...] = (256, 256)

    def __post_init__(self) -> None:
        check(self, update_every=Bounds(0.01))


class TransitionLearner(NetworkLearner, ABC):
    """Networks, and batches with priorities, of learners from transitions.

    A learner inherits it and has ``update``.
    """

    def __init__(self, config: TransitionSettings, device: torch.device | str, seed: int) -> None:
        self.config = config
        self.networks = Networks(device, seed)

    def learn(self, memory: Memory, _obs: Arrays | None = None) -> dict[str, float]:
        """One update from a batch of the memory."""
        batch = memory.sample(self.config.batch_size)
        metrics, error = self.update(batch)
        if self.config.per_alpha:
            memory.update_priorities(batch, error.abs().cpu().numpy())
        return {**as_floats(metrics), "samples": len(error)}

    @abstractmethod
    def update(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """One update; metrics, and what a row's priority is made of ``[B]``."""

    def _begin(self, batch: Batch) -> tuple[TensorBatch, dict[str, Any]]:
        """Count an update: its rows as tensors, and how optimizers step."""
        config = self.config
        self.networks.count_update()
        rows = to_torch(batch, self.networks.device)
        scale = linear(1.0, config.lr_end, config.lr_steps, int(self.networks.updates * config.update_every))
        return rows, {"max_grad_norm": config.max_grad_norm, "lr_scale": scale}


@final
class Frames:
    """What an actor sees of some environments: the newest frames of each, as the memory stacks them, or the last alone.

    Args:
        frames: How many.
    """

    def __init__(self, frames: int, num_envs: int) -> None:
        self._stack = FrameStack(frames, num_envs) if frames > 1 else None
        self._begun = np.ones(num_envs, bool)
        """Where the next observation is the first of an episode."""

    def __call__(self, obs: Arrays) -> Arrays:
        """What environments show, with stacks in place of frames."""
        if self._stack is None:
            return obs
        stacked = {**obs, "obs": self._stack(obs["obs"], self._begun)}
        self._begun[:] = False
        return stacked

    def reset(self, mask: Array) -> None:
        """Reset what is kept of an episode where it ended, ``[E]``."""
        self._begun |= np.asarray(mask, bool)

    def state_dict(self) -> dict[str, Tensor]:
        """What the next stacks depend on."""
        kept = None if self._stack is None else self._stack.kept
        found = {"begun": torch.from_numpy(self._begun.copy())}
        return found if kept is None else found | {"frames": torch.from_numpy(kept)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._begun = state["begun"].numpy().copy()
        if self._stack is not None:
            self._stack.kept = state["frames"].numpy() if "frames" in state else None


def observed_space(space: Space[Any], frames: int) -> Space[Any]:
    """The space of observations, or of stacks of them, the newest last."""
    if frames == 1:
        return space
    if not isinstance(space, spaces.Box) or len(space.shape) > 2:
        rule = "be a Box of at most two axes (a vector, or a picture in grey) for a stack of frames"
        raise OptionError("observation space", rule, space)
    low, high = (np.repeat(bound[None], frames, axis=0) for bound in (space.low, space.high))
    return spaces.Box(low, high, dtype=space.dtype)
