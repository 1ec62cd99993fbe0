"""What the built-in environments have in common: seeds, resets, and snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from relive.envs.dice import Dice, seeds_for
from relive.errors import OptionError
from relive.types import Array

__all__ = ["BuiltIn"]


class BuiltIn(ABC):
    """Vectorised environments whose state is some arrays, and whose chance is ``Dice``."""

    num_envs: int
    _dice: Dice | None = None
    """None: not reset yet."""

    @abstractmethod
    def look(self) -> dict[str, Array]:
        """Observations recomputed, for use after writing to the state."""

    @abstractmethod
    def _begin(self, rows: Array, dice: Dice) -> None:
        """Begin an episode in these environments."""

    @abstractmethod
    def _own(self) -> dict[str, Array]:
        """The arrays that are the state, by name."""

    def reset(self, seed: int | Sequence[int] | None = None) -> dict[str, Array]:
        """Reset all environments and return their observations."""
        if seed is not None or self._dice is None:
            self._dice = Dice(seeds_for(seed, self.num_envs))
        self._begin(np.arange(self.num_envs), self._dice)
        return self.look()

    def _started(self, what: str) -> Dice:
        """The dice, if the environments have been reset."""
        if self._dice is None:
            raise OptionError("reset", f"be called before {what}", what)
        return self._dice

    def snapshot(self) -> dict[str, Array]:
        """The full state as arrays, for ``restore``."""
        dice = self._started("snapshot")
        copies = {name: value.copy() for name, value in self._own().items()}
        return copies | {f"dice/{name}": value for name, value in dice.snapshot().items()}

    def restore(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """Restore a snapshot of the same setup, if all of it fits, and return the observations."""
        own, dice = self._own(), Dice(range(self.num_envs))
        expected = {name: value.shape for name, value in own.items()}
        expected |= {f"dice/{name}": value.shape for name, value in dice.snapshot().items()}
        for name, shape in expected.items():
            given = np.shape(state[name]) if name in state else "nothing"
            if given != shape:
                raise OptionError(f"state[{name!r}]", f"have shape {shape}", given)
            if not np.isfinite(state[name]).all():
                raise OptionError(f"state[{name!r}]", "be finite", "NaN or infinity")
        for name, value in own.items():
            value[...] = state[name]
        dice.restore({name: state[f"dice/{name}"] for name in dice.snapshot()})
        self._dice = dice
        return self.look()

    def close(self) -> None:  # noqa: B027 - nothing to do, and nothing that must be done
        """Nothing to release."""
