"""XuanCe's off-policy buffers for one agent, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive.compat.checks import array, at_least, index
from relive.compat.drawing import generator
from relive.compat.nests import field_of
from relive.compat.saving import exclusive
from relive.compat.xuance.buffer import StepBuffer, Stored, image_field
from relive.compat.xuance.segment_trees import PriorityTree
from relive.compat.xuance.slots import slots_of
from relive.errors import NotEnoughRows, OptionError, PriorityError
from relive.memory import Batch, Memory, Prioritized, Sampler, Uniform
from relive.memory.checks import is_number
from relive.messages import brief
from relive.types import Array

__all__ = ["DummyOffPolicyBuffer", "DummyOffPolicyBuffer_Atari", "PerOffPolicyBuffer", "Transitions"]


class Transitions(StepBuffer):
    """Steps with what was seen after them."""

    next_observations = Stored("next_obs")

    def _setup_transitions(self, batch_size: int, observation: Any, sampler: Sampler, seed: int | None) -> None:
        self.batch_size = at_least("batch_size", batch_size, 1)
        self._setup({"obs": observation, "next_obs": observation}, sampler=sampler, seed=seed)

    def clear(self) -> None:
        """Forget everything."""
        self._forget()

    def store(
        self,
        obs: Any,
        acts: Any,
        rews: Any,
        terminals: Any,
        next_obs: Any,
        aux_info: Any = None,
        truncations: Any = None,
    ) -> None:
        """Store one step of every environment: values ``[n_envs, ...]``.

        Args:
            next_obs: What was really seen after the step, at time limits too.
            truncations: Which environments were cut off by a time limit; their ``terminals`` stay False.
        """
        step = {"obs": obs, "acts": acts, "rews": rews, "next_obs": next_obs}
        self._put(step, terminals, aux_info, truncations)

    def _documented(self, batch: Batch, **more: Any) -> dict[str, Any]:
        slots = self._slots
        samples = {
            "obs": slots.of_batch("obs", batch),
            "actions": slots.of_batch("acts", batch),
            "obs_next": slots.of_batch("next_obs", batch),
            "rewards": batch.rews,
            "terminals": batch.terminals.astype(np.float32),
            **more,
            "batch_size": len(batch.lanes),
        }
        if self.auxiliary_shape is not None:
            samples["aux_batch"] = self._aux.of_batch(slots, batch)
        return samples


class DummyOffPolicyBuffer(Transitions):
    """Replay of ``n_envs`` environments, ``buffer_size / n_envs`` steps each, drawn uniformly."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        buffer_size: int,
        batch_size: int,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, auxiliary_shape, n_envs, buffer_size)
        self._setup_transitions(batch_size, self._observation_field(), Uniform(), seed)

    def _observation_field(self) -> Any:
        return field_of("observation_space", self.observation_space)

    def sample(self, batch_size: int | None = None) -> dict[str, Any]:
        """``obs``, ``actions``, ``obs_next``, ``rewards`` and ``terminals`` of so many steps, and ``batch_size``.

        ``aux_batch`` too, if there is an ``auxiliary_shape``.
        """
        size = self.batch_size if batch_size is None else batch_size
        return self._documented(self._slots.memory.sample(size))


class DummyOffPolicyBuffer_Atari(DummyOffPolicyBuffer):  # noqa: N801 - their name
    """The same with observations kept as bytes; floats are refused, as they would be cut to zeros."""

    def _observation_field(self) -> Any:
        return image_field(self.observation_space)


class PerOffPolicyBuffer(Transitions):
    """Prioritised replay over all environments alike.

    Args:
        alpha: 0 draws uniformly, 1 in proportion to priorities.
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        buffer_size: int,
        batch_size: int,
        alpha: float = 0.6,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, auxiliary_shape, n_envs, buffer_size)
        self._alpha = alpha
        observation = field_of("observation_space", observation_space)
        self._setup_transitions(batch_size, observation, Prioritized(alpha, eps=1e-8), seed)
        self._drawn: tuple[Array, Array, Array] | None = None

    def clear(self) -> None:
        """Forget everything, priorities too."""
        super().clear()
        self._drawn = None

    @property
    def _it_sum(self) -> list[PriorityTree]:
        """The priorities of every environment."""
        return [self._tree(env) for env in range(self.n_envs)]

    @property
    def _it_min(self) -> list[PriorityTree]:
        return self._it_sum

    @property
    def _max_priority(self) -> Array:
        """What new steps begin with, for every environment."""
        there = self._slots.memory.priorities[:, : self.size]
        return np.full(
            self.n_envs, max(1.0, float(there.max(initial=0.0)) ** (1 / self._alpha) if self._alpha else 1.0)
        )

    def _tree(self, env: int) -> PriorityTree:
        def read() -> Array:
            return np.asarray(self._slots.memory.priorities[env, : self.size])

        def write(slot: int, priority: float) -> None:
            step = env * self.n_size + index("idx", slot, 0, self.size - 1)
            self.update_priorities([step], [priority ** (1 / self._alpha) if self._alpha else priority])

        return PriorityTree(read, write)

    def _sample_proportional(self, env_idx: int, batch_size: int) -> list[int]:
        """Slots of one environment, drawn in proportion to priorities, one from each of equal parts of their sum."""
        env_idx = index("env_idx", env_idx, 0, self.n_envs - 1)
        if self.size == 0:
            raise NotEnoughRows("buffer", "hold a step to be sampled", "none")
        sums = np.cumsum(self._slots.memory.priorities[env_idx, : self.size])
        units = np.arange(batch_size) + generator(self._slots.memory).random(batch_size)
        found = np.searchsorted(sums, units * (sums[-1] / batch_size), side="right")
        return [int(slot) for slot in np.minimum(found, self.size - 1)]

    def sample(self, beta: float) -> dict[str, Any]:
        """As other replay, and ``weights``, and ``step_choices``, which ``update_priorities`` knows the steps by.

        These two are ``[n_envs, batch_size / n_envs]``, or ``[batch_size]`` if that is no whole number. A step is known
        by environment * n_size + slot.

        Args:
            beta: How much of the bias the weights correct, from 0 to 1.
        """
        if not is_number(beta) or not beta > 0:
            raise OptionError("beta", "be above 0", brief(beta))
        batch = self._slots.memory.sample(self.batch_size, beta=beta)
        known = batch.lanes * self.n_size + batch.serials % self.n_size
        self._drawn = (known, batch.lanes, batch.serials)
        whole = self.batch_size % self.n_envs == 0
        shape = (self.n_envs, self.batch_size // self.n_envs) if whole else (self.batch_size,)
        return self._documented(batch, weights=batch.weights.reshape(shape), step_choices=known.reshape(shape))

    @exclusive
    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Set the priorities of steps to the size of their errors.

        Args:
            idxes: Steps as ``sample`` gave them. Of those drawn last, steps overwritten since are passed over.
            priorities: As many errors; signs do not matter.

        Raises:
            PriorityError: If an error is not finite. Nothing is changed then.
        """
        errors, known = array(priorities).ravel(), array(idxes).ravel()
        if errors.shape != known.shape or errors.dtype.kind not in "fiub":
            raise PriorityError("priorities", f"be {known.size} numbers", f"{errors.dtype}[{errors.size}]")
        drawn = self._drawn
        if drawn is not None and known.shape == drawn[0].shape and (known == drawn[0]).all():
            envs, serials = drawn[1:]
        else:
            envs, slots = slots_of(idxes, self.n_envs, self.n_size)
            if (slots >= self.size).any():
                raise OptionError("idxes", "name steps that are stored", int(known[slots >= self.size][0]))
            serials = self._slots.serials(slots)
        try:
            self._slots.memory.update_priorities({"lanes": envs, "serials": serials}, errors)
        except PriorityError:
            bad = int((~np.isfinite(errors)).argmax())
            env, slot = divmod(int(known[bad]), self.n_size)
            where = f"{errors[bad]} for step {known[bad]} (environment {env}, slot {slot})"
            raise PriorityError("priorities", "be finite", where, "No priority was changed.") from None

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        super()._adopt(memory, notes)
        self._drawn = None
