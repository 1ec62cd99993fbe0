"""An actor's lanes of a shared memory."""

from __future__ import annotations

import time
from typing import Any, final

import numpy as np

from relive.errors import OptionError
from relive.memory.checks import real, some_lanes
from relive.memory.storage import Shared
from relive.memory.writing import write
from relive.messages import brief
from relive.schema import Schema
from relive.types import Lanes, Value

__all__ = ["Writer"]


@final
class Writer:
    """Lanes of a shared memory that this process writes to, while others write theirs and a ``Memory`` samples.

    A lane that another writer left, or lost by being killed, can be taken over: what it had appended stays, and the
    episode it was in is cut.

    Args:
        storage: The segment, or its name. It must have been made by a ``Memory``.
        lanes: One lane's number, with values without a lane axis; or several, with values ``[k, ...]``. None: all.
        timeout: Seconds to wait for the memory to be made.

    >>> import relive as rl
    >>> schema = rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8"))
    >>> with rl.Memory(schema, 1000, lanes=2, storage=rl.Shared("doctest"), seed=0) as memory:
    ...     with rl.Writer("doctest", lanes=1) as actor:  # in another process
    ...         actor.append(obs=[0, 1], action=1, reward=1.0, terminated=True, truncated=False)
    ...     print(memory.sample(1).lanes)
    [1]
    """

    def __init__(self, storage: Shared | str, lanes: Lanes = None, *, timeout: float = 0.0) -> None:
        storage = Shared(storage) if isinstance(storage, str) else storage
        if not isinstance(storage, Shared):
            raise OptionError("storage", "be Shared, or its name", brief(storage))
        deadline = time.monotonic() + real("timeout", timeout, 0, 1e9)
        while not storage.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        self._ground = storage.open(None)
        self.schema: Schema = self._ground.layout.schema
        try:
            count = self._ground.layout.lanes
            bare = lanes is None and self._ground.layout.bare
            self._lanes = 0 if bare else np.arange(count) if lanes is None else some_lanes(lanes, count)
            self._ground.write_to(self._lanes)
        except BaseException:
            self._ground.close()
            raise

    @property
    def lanes(self) -> list[int]:
        """The numbers of its lanes."""
        return [int(lane) for lane in np.atleast_1d(self._lanes)]

    def append(self, /, *, lanes: Lanes = None, **step: Value) -> None:
        """Append one step of all its lanes, or of some; see ``Memory.append``."""
        self._write(step, lanes, block=False)

    def extend(self, /, *, lanes: Lanes = None, **block: Value) -> None:
        """Append a block of steps; see ``Memory.extend``."""
        self._write(block, lanes, block=True)

    def cut(self, lanes: Lanes = None) -> None:
        """End the open episodes of its lanes, or of some; see ``Memory.cut``."""
        self._ground.check_attached()
        for lane in np.atleast_1d(self._chosen(lanes)):
            self._ground.store.cut(int(lane))

    def close(self) -> None:
        """Leave the lanes to others."""
        self._ground.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Writer({self._ground.name!r}, lanes {self.lanes}, {self.schema})"

    def _write(self, step: dict[str, Any], lanes: Any, *, block: bool) -> None:
        chosen = self._lanes if lanes is None else self._chosen(lanes)
        self._ground.check_attached()
        count = self._ground.layout.lanes
        write(self._ground.store, self.schema, step, chosen, count=count, bare=False, block=block)

    def _chosen(self, lanes: Any) -> Any:
        if lanes is None:
            return self._lanes
        chosen = some_lanes(lanes, self._ground.layout.lanes)
        if not set(np.atleast_1d(chosen).tolist()) <= set(self.lanes):
            raise OptionError("lanes", f"be among the writer's ({self.lanes})", repr(lanes))
        return chosen
