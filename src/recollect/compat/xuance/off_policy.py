"""XuanCe's off-policy buffers for one agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from recollect.compat.checks import at_least, index, plain
from recollect.compat.drawing import generator
from recollect.compat.saving import exclusive
from recollect.compat.xuance.buffer import Samples, StepBuffer, image_field
from recollect.compat.xuance.nests import field_of
from recollect.compat.xuance.slots import Array, slots_of
from recollect.errors import NotEnoughRows, OptionError, PriorityError
from recollect.memory import Batch, Memory, Prioritized, Sampler, Uniform

__all__ = ["DummyOffPolicyBuffer", "DummyOffPolicyBuffer_Atari", "PerOffPolicyBuffer"]


class _Transitions(StepBuffer):
    """Steps with what was seen after them."""

    def _setup_transitions(
        self, n_envs: int, n_size: int, batch_size: int, observation: Any, sampler: Sampler, seed: int | None
    ) -> None:
        self.batch_size = at_least("batch_size", batch_size, 1)
        self._setup(n_envs, n_size, {"obs": observation, "next_obs": observation}, sampler=sampler, seed=seed)

    @property
    def next_observations(self) -> Any:
        """What was seen after every step."""
        return self._slots.arrays("next_obs")

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

    def _documented(self, batch: Batch) -> tuple[Any, ...]:
        slots = self._slots
        return (
            slots.of_batch("obs", batch),
            slots.of_batch("acts", batch),
            batch.rews,
            batch.terminals.astype(np.float32),
            slots.of_batch("next_obs", batch),
        )

    def _with_auxiliary(self, samples: Samples, batch: Batch) -> Samples:
        if self.auxiliary_shape is not None:
            samples.auxiliary_infos = self._aux.of_batch(self._slots, batch)
        return samples


class DummyOffPolicyBuffer(_Transitions):
    """Replay of ``n_envs`` environments, ``n_size`` steps each, drawn uniformly."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        auxiliary_shape: Any,
        n_envs: int,
        n_size: int,
        batch_size: int,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, auxiliary_shape)
        self._setup_transitions(n_envs, n_size, batch_size, self._observation_field(), Uniform(), seed)

    def _observation_field(self) -> Any:
        return field_of("observation_space", self.observation_space)

    def sample(self) -> Samples:
        """Observations, actions, rewards, terminals and next observations of ``batch_size`` steps."""
        batch = self._slots.memory.sample(self.batch_size)
        return self._with_auxiliary(Samples(self._documented(batch)), batch)


class DummyOffPolicyBuffer_Atari(DummyOffPolicyBuffer):  # noqa: N801 - their name
    """The same with observations kept as bytes; floats are refused, as they would be cut to zeros."""

    def _observation_field(self) -> Any:
        return image_field(self.observation_space)


class PerOffPolicyBuffer(_Transitions):
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
        n_size: int,
        batch_size: int,
        alpha: float = 0.6,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, auxiliary_shape)
        self._alpha = alpha
        observation = field_of("observation_space", observation_space)
        self._setup_transitions(n_envs, n_size, batch_size, observation, Prioritized(alpha, eps=1e-8), seed)
        self._drawn: tuple[Array, Array, Array] | None = None

    def clear(self) -> None:
        """Forget everything, priorities too."""
        super().clear()
        self._drawn = None

    def _sample_proportional(self, env_idx: int, batch_size: int) -> list[int]:
        """Slots of one environment, drawn in proportion to priorities, one from each of equal parts of their sum."""
        env_idx = index("env_idx", env_idx, 0, self.n_envs - 1)
        if self.size == 0:
            raise NotEnoughRows("buffer", "hold a step to be sampled", "none")
        sums = np.cumsum(self._slots.memory.priorities[env_idx][: self.size])
        units = np.arange(batch_size) + generator(self._slots.memory).random(batch_size)
        found = np.searchsorted(sums, units * (sums[-1] / batch_size), side="right")
        return [int(slot) for slot in np.minimum(found, self.size - 1)]

    def sample(self, beta: float) -> Samples:
        """As other replay, then weights and what ``update_priorities`` knows the steps by.

        These two are ``[n_envs, batch_size / n_envs]``, or ``[batch_size]`` if that is no whole number. A step is known
        by environment * n_size + slot.

        Args:
            beta: How much of the bias the weights correct, from 0 to 1.
        """
        if not beta > 0:
            raise OptionError("beta", "be above 0", beta)
        batch = self._slots.memory.sample(self.batch_size, beta=beta)
        known = batch.lanes * self.n_size + batch.serials % self.n_size
        self._drawn = (known, batch.lanes, batch.serials)
        whole = self.batch_size % self.n_envs == 0
        shape = (self.n_envs, self.batch_size // self.n_envs) if whole else (self.batch_size,)
        samples = Samples((*self._documented(batch), batch.weights.reshape(shape), known.reshape(shape)))
        return self._with_auxiliary(samples, batch)

    @exclusive
    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Set the priorities of steps to the size of their errors.

        Args:
            idxes: Steps as ``sample`` gave them. Of those drawn last, steps overwritten since are passed over.
            priorities: As many errors; signs do not matter.

        Raises:
            PriorityError: If an error is not finite. Nothing is changed then.
        """
        errors = np.asarray(plain(priorities)).ravel()
        known = np.asarray(idxes).ravel()
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
