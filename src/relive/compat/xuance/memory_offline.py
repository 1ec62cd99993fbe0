"""XuanCe's memory of a data set, for learning without an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive.compat.checks import flags_of, within
from relive.compat.saving import exclusive
from relive.compat.xuance.off_policy import DummyOffPolicyBuffer
from relive.errors import OptionError

__all__ = ["OfflineBuffer_D4RL"]

_NAMES = {"observations": "obs", "actions": "acts", "rewards": "rews", "next_observations": "next_obs"}


class OfflineBuffer_D4RL(DummyOffPolicyBuffer):  # noqa: N801 - their name
    """Replay that a data set of D4RL's kind is read into, drawn uniformly."""

    @exclusive
    def d4rl2buffer(self, dataset: Mapping[str, Any]) -> None:
        """Take a data set in place of what is there: arrays ``[N, ...]`` by D4RL's names, for every environment.

        Raises:
            OptionError: If it lacks a name or has more steps than ``buffer_size / n_envs``. Nothing is changed then.
        """
        for name in (*_NAMES, "terminals"):
            if name not in dataset:
                raise OptionError("dataset", f"have {name}", f"{', '.join(dataset)}")
        count = len(dataset["rewards"])
        if not 0 < count <= self.n_size:
            remedy = f"Make the buffer with buffer_size={count * self.n_envs}."
            raise OptionError("dataset", f"have 1 to {self.n_size} steps", count, remedy)
        terminated = flags_of("terminals", np.reshape(dataset["terminals"], -1), (count,))
        within("actions", self.action_space, dataset["actions"])

        def spread(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: spread(inner) for key, inner in value.items()}
            array = np.asarray(value)
            if array.shape[:1] != (count,):
                raise OptionError("dataset", f"have {count} steps of everything", list(array.shape))
            return np.broadcast_to(array[:, None], (count, self.n_envs, *array.shape[1:]))

        steps = {field: spread(dataset[name]) for name, field in _NAMES.items()}
        if self._aux.field is not None:
            raise OptionError("auxiliary_shape", "be None for a data set", self.auxiliary_shape)
        self._slots.fill(steps | {"terminals": spread(terminated)}, spread(terminated))
        self.ptr, self.size = self._slots.ptr, self._slots.size
