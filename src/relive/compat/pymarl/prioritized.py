"""PyMARL2's replay of whole episodes by priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive.compat.checks import array
from relive.compat.drawing import generator
from relive.compat.pymarl.batch import EpisodeBatch
from relive.compat.pymarl.replay import ReplayBuffer
from relive.compat.pymarl.scheme import Preprocess
from relive.compat.saving import exclusive
from relive.errors import OptionError, PriorityError
from relive.memory import Memory
from relive.memory.checks import is_number, real
from relive.messages import brief
from relive.types import Array

__all__ = ["PrioritizedReplayBuffer"]


_EPS = 1e-8  # added to every priority, so that no episode falls out of reach


class PrioritizedReplayBuffer(ReplayBuffer):
    """Replay in proportion to priorities raised to ``alpha``; new episodes get the largest so far.

    Args:
        beta: How much of the bias weights correct at first; it goes to 1 in ``t_max`` steps.
    """

    def __init__(
        self,
        scheme: Mapping[str, Any],
        groups: Mapping[str, int],
        buffer_size: int,
        max_seq_length: int,
        alpha: float,
        beta: float,
        t_max: int,
        preprocess: Preprocess | None = None,
        device: Any = "cpu",
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(scheme, groups, buffer_size, max_seq_length, preprocess, device, seed=seed)
        for name, value in (("alpha", alpha), ("beta", beta)):
            real(name, value, 0, 1)
        real("t_max", t_max, 1, float("inf"))
        self.alpha = alpha
        self.beta = self.beta_original = beta
        self.t_max = t_max
        self.beta_increment = (1.0 - beta) / t_max
        self.max_priority = 1.0
        self._powers = np.zeros(self.buffer_size)
        self._numbers = np.full(self.buffer_size, -1)  # how many episodes were put in before the one in a place
        self._drawn: tuple[list[int], Array] = ([], np.zeros(0, np.int64))

    def _inserted(self, places: Array) -> None:
        put = self._rows.ring.put
        self._powers[places] = self.max_priority**self.alpha
        self._numbers[places] = np.arange(put - len(places), put)

    def _sample_proportional(self, batch_size: int) -> list[int]:
        """Places drawn in proportion to priorities, one from each of equal parts of their sum."""
        sums = np.cumsum(self._powers[: self.episodes_in_buffer])
        units = np.arange(batch_size) + generator(self._rows.memory).random(batch_size)
        found = np.searchsorted(sums, units * (sums[-1] / batch_size), side="right")
        return [int(place) for place in np.minimum(found, self.episodes_in_buffer - 1)]

    @exclusive
    def sample(self, batch_size: int, t: int) -> tuple[EpisodeBatch, list[int], Array]:  # type: ignore[override]
        """Episodes, their places and their weights ``[batch_size]``, (N P)^-beta over the largest.

        Args:
            t: Steps so far, by which beta goes from its first value to 1.
        """
        self._check_count(batch_size)
        if not is_number(t):
            raise OptionError("t", "be a number of steps", brief(t))
        self.beta = min(1.0, self.beta_original + t * self.beta_increment)
        places = self._sample_proportional(batch_size)
        there = self._powers[: self.episodes_in_buffer]
        weights = (there.min() / self._powers[places]) ** self.beta
        self._drawn = (places, self._numbers[places])
        return self._read(np.array(places, np.int64)), places, weights

    @exclusive
    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Set the priorities of episodes; of those drawn last, ones replaced since are passed over.

        Raises:
            PriorityError: If a priority is not finite. Nothing is changed then.
        """
        places, given = array(idxes).ravel(), array(priorities).ravel()
        if places.dtype.kind not in "iu" and places.size:
            raise OptionError("idxes", "be whole numbers", brief(idxes))
        if given.shape != places.shape or given.dtype.kind not in "biuf":
            raise PriorityError("priorities", f"be {places.size} numbers", f"{given.dtype}[{given.size}]")
        places, sizes = places.astype(np.int64), np.abs(given.astype(np.float64))
        if places.size and not 0 <= places.min() <= places.max() < self.episodes_in_buffer:
            raise OptionError("idxes", f"be from 0 to {self.episodes_in_buffer - 1}", places.tolist())
        if not np.isfinite(sizes).all():
            bad = int((~np.isfinite(sizes)).argmax())
            where = f"{sizes[bad]} for episode {places[bad]}"
            raise PriorityError("priorities", "be finite numbers", where, "No priority was changed.")
        if self._drawn[0] == places.tolist():
            kept = self._numbers[places] == self._drawn[1]
            places, sizes = places[kept], sizes[kept]
        if places.size:
            self._powers[places] = (sizes + _EPS) ** self.alpha
            self.max_priority = max(self.max_priority, float(sizes.max()))

    def _parts(self) -> tuple[Memory, dict[str, Any]]:
        memory, notes = super()._parts()
        priorities = {"powers": self._powers.tolist(), "numbers": self._numbers.tolist(), "largest": self.max_priority}
        return memory, notes | {"priorities": priorities}

    def _adopt(self, memory: Memory, notes: dict[str, Any]) -> None:
        saved = notes["priorities"]
        powers, numbers = np.array(saved["powers"], np.float64), np.array(saved["numbers"], np.int64)
        super()._adopt(memory, notes)
        self._powers, self._numbers, self.max_priority = powers, numbers, float(saved["largest"])
        self._drawn = ([], np.zeros(0, np.int64))
