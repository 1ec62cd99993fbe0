"""A learner's memory on a cluster, with the interface of a local one."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, final

from relive.agents.interface import Experience
from relive.distributed import ShardLearner, Shards
from relive.distributed.learner import Restart
from relive.errors import OptionError
from relive.memory import Batch, Memory
from relive.schema import Field

__all__ = ["VERSION_FIELD", "RunMemory", "ShardedMemory"]

VERSION_FIELD = "policy_version"
"""The version of the weights that a step was taken with."""

_GROUP = 4  # batches of a call: more cost less, but come with older priorities
_LOOK = 0.1  # seconds between looks at whether there is anything to draw


@final
class ShardedMemory:
    """Shards with the schema, window and sampler of an algorithm's memory, drawn from by one learner.

    Args:
        template: The memory that the algorithm would learn from in one process; its rows are not used.
        options: Of ``Shards``. What their durability keeps is removed when they end, and before they begin.
        source: A folder that an earlier one was saved to.
    """

    def __init__(
        self, template: Memory, *, source: Path | None = None, folder: Path | None = None, **options: Any
    ) -> None:
        self._folder = folder
        self._forget()
        schema = template.schema.with_fields(**{VERSION_FIELD: Field((), "int64")})
        parts: dict[str, Any] = {
            "lanes": template.lanes,
            "sampler": template.sampler,
            "window": template.window,
            "stack": template.stack,
            "max_episodes": template.max_episodes,
            "folder": folder,
            **options,
        }
        capacity = template.capacity
        self.shards = (
            Shards(schema, capacity, **parts) if source is None else Shards.load(source, schema, capacity, **parts)
        )
        self.lanes, self.max_episodes = template.lanes, template.max_episodes
        self._learner: ShardLearner | None = None
        self._ready, self._looked = False, 0.0
        self.newest_version = 0
        self._age, self._aged = 0.0, 0

    @property
    def ready(self) -> int:
        """Whether there is anything to learn from: 1 or 0."""
        if not self._ready and time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            self._ready = any(shard is not None and shard["ready"] for shard in self.shards.state()["shards"])
        return int(self._ready)

    def sample(self, size: int) -> Batch:
        """A batch of all shards' rows."""
        if self._learner is None or self._learner.size != size:
            if self._learner is not None:
                self._learner.close()
            self._learner = self.shards.learner(size, group=_GROUP)
        batch = next(self._learner)
        self._age += float((self.newest_version - batch[VERSION_FIELD]).mean())
        self._aged += 1
        return batch

    def update_priorities(self, batch: Batch, errors: Any) -> None:
        """Set priorities, with the next call to the batch's shard."""
        assert self._learner is not None
        self._learner.update_priorities(batch, errors)

    @property
    def inspect(self) -> NoReturn:
        """Refused: shards have no order of steps."""
        raise OptionError("memory", "be of one process to be inspected", "shards", "Train without --cluster.")

    def take_metrics(self) -> dict[str, float]:
        """The mean policy lag of sampled rows, in versions."""
        found = {"cluster/policy_age": self._age / self._aged} if self._aged else {}
        self._age, self._aged = 0.0, 0
        return found

    def take_restarts(self) -> list[Restart]:
        """Shards that died and began again since the last time, as the learner noticed."""
        if self._learner is None:
            return []
        found, self._learner.restarts = self._learner.restarts, []
        return found

    def save(self, folder: Path) -> None:
        """Save snapshots of all shards."""
        self.shards.save(folder)

    def cut(self) -> None:
        """Nothing: writers that begin cut the lanes they take."""

    def close(self) -> None:
        """End the shards."""
        if self._learner is not None:
            self._learner.close()
        self.shards.close()
        self._forget()

    def _forget(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


RunMemory: TypeAlias = Experience | ShardedMemory
"""What a run learns from: in this process, or on a cluster."""
