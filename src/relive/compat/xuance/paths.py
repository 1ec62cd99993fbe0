"""Returns and advantages of one environment's steps since its last ``finish_path``."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from relive.compat.checks import index, plain
from relive.compat.saving import Saveable
from relive.compat.xuance.slots import Slots
from relive.errors import OptionError, Problem, StepError
from relive.memory import Memory, targets
from relive.messages import brief
from relive.types import Array

__all__ = ["HasPaths", "Paths", "advantages", "last_values", "of_agents", "td_lambda_returns"]


@final
class Paths:
    """Where the environments' paths begin whose returns are not worked out yet."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.clear()

    def clear(self) -> None:
        """Start from scratch."""
        self._since = np.zeros(self._slots.n_envs, np.int64)
        self._cut_off = np.zeros(self._slots.n_envs, bool)

    @property
    def start_ids(self) -> Array:
        """The slots where they begin; a copy."""
        return np.asarray(self._since % self._slots.n_size)

    def check_finished(self) -> None:
        """Refuse a step after a truncated one whose returns nobody has worked out."""
        if self._cut_off.any():
            rule = f"be called for environment {int(self._cut_off.argmax())} after its truncated step"
            remedy = "Pass it the value of what was seen last."
            raise StepError((Problem("finish_path", rule, "another step", remedy),))

    def cut_off(self, flags: Array) -> None:
        """Note which environments' newest step was truncated."""
        self._cut_off = flags

    def slots(self, name: str, env: Any) -> Array:
        """The slots of an environment's path, oldest first."""
        return self._slots.path(int(self._since[index(name, env, 0, self._slots.n_envs - 1)]))

    def finish(self, env: int) -> None:
        """Note that an environment's path is worked out."""
        self._since[env] = self._slots.count
        self._cut_off[env] = False

    def notes(self) -> dict[str, Any]:
        """For a snapshot."""
        return {"since": self._since.tolist(), "cut_off": self._cut_off.tolist()}

    def adopt(self, notes: dict[str, Any]) -> None:
        """From a snapshot."""
        self._since, self._cut_off = np.array(notes["since"], np.int64), np.array(notes["cut_off"], bool)


class HasPaths(Saveable):
    """A buffer whose open paths are saved with it."""

    _paths: Paths

    @property
    def start_ids(self) -> Array:
        """The slots where the paths begin that are not finished yet; a copy."""
        return self._paths.start_ids

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        memory, notes = super()._parts()  # type: ignore[safe-super]
        return memory, notes | self._paths.notes()

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        super()._adopt(memory, notes)  # type: ignore[safe-super]
        self._paths.adopt(notes)


def advantages(
    rewards: Array, values: Array, terminated: Array, *, use_gae: bool, gamma: float, lam: float
) -> tuple[Array, Array]:
    """Returns and advantages ``[T, N]``.

    Args:
        values: Of what was seen before every step and after the last, ``[T + 1, N]``.
        use_gae: Whether to estimate by GAE; otherwise returns are discounted sums, and advantages what they are above
            the values.
    """
    if use_gae:
        advantage, returns = targets.gae(rewards, values, terminated=terminated, gamma=gamma, lam=lam)
        return returns, advantage
    returns = targets.discounted_returns(rewards, values[1:], terminated=terminated, gamma=gamma)
    return returns, returns - values[:-1]


def td_lambda_returns(rewards: Array, values: Array, terminated: Array, *, gamma: float, lam: float) -> Array:
    """TD(lambda) returns ``[T, N]``, with arguments as of ``advantages``."""
    return targets.td_lambda(rewards, values[1:], terminated=terminated, gamma=gamma, lam=lam)


def last_values(name: str, value: Any, n_agents: int) -> Array:
    """Values of what was seen last, given as one for each agent or one for all."""
    rule = f"be one number or one for each of {n_agents} agents" if n_agents > 1 else "be one number"
    try:
        last = np.asarray(plain(value), np.float32)
    except (ValueError, TypeError, RuntimeError):
        raise OptionError(name, rule, brief(value)) from None
    if last.size not in (1, n_agents):
        raise OptionError(name, rule, list(last.shape))
    return last.reshape(-1)


def of_agents(
    rewards: Array, values: Array, last: Array, terminated: Array, n_agents: int, normalizer: Any
) -> tuple[Array, Array, Array]:
    """Rewards, values ``[T + 1, agents]`` and terminals of a path ``[T, ...]``, as ``advantages`` takes them.

    Args:
        normalizer: What the values were normalised by, with a method ``denormalize``; or None.
    """
    steps = len(rewards)
    real = np.empty((steps + 1, n_agents, 1), np.float32)
    real[:-1, :, 0], real[-1, :, 0] = values.reshape(steps, n_agents), last
    if normalizer is not None:
        real = np.asarray(plain(normalizer.denormalize(real)), np.float32)

    def spread(array: Array) -> Array:
        flat = array.reshape(steps, -1)
        return flat if flat.shape[1] == n_agents else np.broadcast_to(flat, (steps, n_agents))

    return spread(rewards), real.reshape(steps + 1, n_agents), spread(terminated)
