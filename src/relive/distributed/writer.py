"""Writers of lanes: rows are buffered until their shard has acknowledged them."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Any, final

import numpy as np

from relive.distributed.ray_start import import_ray
from relive.distributed.shard import ShardSpec
from relive.distributed.tally import Ratio, Tally
from relive.errors import OptionError, StorageError
from relive.memory import Memory
from relive.memory.checks import some_lanes, whole
from relive.types import Lanes, Value

__all__ = ["ShardWriter"]

_NAP = 0.005  # seconds between two looks at whether a limiter lets go
_AGAIN = 0.1  # seconds between two tries to reach a shard
_ANSWER = 5.0  # seconds after which a try counts as failed


@final
class ShardWriter:
    """Lanes of a sharded memory that this process writes to; see ``Shards.writer``.

    Rows have serials, and a shard skips those that it has. So unacknowledged rows are resent after a failure, and
    stored exactly once. Acknowledged rows that a shard lost are counted in ``lost``, and the open episodes of its lanes
    are cut there.
    """

    def __init__(
        self,
        handles: list[Any],
        spec: ShardSpec,
        limiter: Ratio | None,
        lanes: Lanes,
        *,
        block: int,
        unacked: int,
        timeout: float | None,
    ) -> None:
        count = len(handles) * spec.lanes
        self._block, self._unacked = whole("block", block, 1, 1 << 24), whole("unacked", unacked, 1, 1 << 16)
        self._timeout, self._limiter, self.tally = timeout, limiter, Tally()
        chosen = np.arange(count) if lanes is None else some_lanes(lanes, count)
        self._bare = isinstance(chosen, int)
        self.lanes: list[int] = np.atleast_1d(chosen).tolist()
        """Their numbers."""
        self.schema, self.lost, self.recoveries = spec.schema, 0, 0
        span = 2 * self._block * (self._unacked + 2) + 8
        self._rows = Memory(spec.schema, span * len(self.lanes), None if self._bare else len(self.lanes))
        self._span, self._steps = span, 0
        members: dict[int, list[int]] = {}
        for place, lane in enumerate(self.lanes):
            members.setdefault(lane // spec.lanes, []).append(place)
        self._links = {
            shard: _Link(handles[shard], [self.lanes[place] % spec.lanes for place in places], places)
            for shard, places in members.items()
        }
        for shard, link in self._links.items():
            self._attach(shard, link, begin=True)

    # ---- writing ---------------------------------------------------------------------------------------------------

    def append(self, /, *, lanes: Lanes = None, **step: Value) -> None:
        """Append one step of all its lanes, or of some; see ``Memory.append``. Waits while too much is on its way.

        Raises:
            StepError: With every problem of the step. Nothing is stored.
            StorageError: If another writer has the lanes, or a shard did not answer in time.
        """
        self._rows.append(lanes=self._places(lanes), **step)
        self._steps += 1
        if self._steps >= self._block:
            self._send()

    def extend(self, /, *, lanes: Lanes = None, **block: Value) -> None:
        """Append a block of at most ``block`` steps; see ``Memory.extend``."""
        ended: Any = block.get("terminated", ())
        steps = len(ended)
        if steps > self._block:
            raise OptionError("steps", f"be at most the {self._block} of a block", steps)
        if self._steps + steps > self._block:
            self._send()
        self._rows.extend(lanes=self._places(lanes), **block)
        self._steps += steps
        if self._steps >= self._block:
            self._send()

    def cut(self, lanes: Lanes = None) -> None:
        """End the open episodes of its lanes, or of some; see ``Memory.cut``."""
        self.flush()
        places = self._places(lanes)
        for place in range(len(self.lanes)) if places is None else np.atleast_1d(places).tolist():
            shard, link = next((shard, link) for shard, link in self._links.items() if place in link.places)
            where = link.places.index(place)
            while True:
                answer = link.call("cut", link.epoch, link.generation, link.lanes[where], link.heads[where])
                if answer is not None and "heads" in answer:
                    break
                self._attach(shard, link)
                self.flush()
            self._rows.cut(None if self._bare else place)
            link.sent[where] = link.acked[where] = int(self._rows.inspect.heads[place])
            link.heads[where] = answer["heads"][0]

    def flush(self) -> None:
        """Send what is here, whatever a limiter says; returns once all of it has been acknowledged."""
        self._send(heed=False)
        for shard, link in self._links.items():
            while link.calls or link.most_behind(self._rows.inspect.heads) > 0:
                self._wait(shard, link) if link.calls else self._ship(shard, link)

    def close(self) -> None:
        """Flush, and leave the lanes to others."""
        self.flush()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        return f"ShardWriter(lanes {self.lanes}, {self.lost} lost, {self.schema})"

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _places(self, lanes: Lanes) -> Any:
        """Lanes by their places among its own."""
        if lanes is None:
            return None
        chosen = np.asarray(lanes)
        known = {lane: place for place, lane in enumerate(self.lanes)}
        if chosen.dtype == bool:
            return chosen
        if not set(np.atleast_1d(chosen).tolist()) <= set(known):
            raise OptionError("lanes", f"be among the writer's ({self.lanes})", repr(lanes))
        places = [known[lane] for lane in np.atleast_1d(chosen).tolist()]
        return places[0] if chosen.ndim == 0 else np.array(places, np.int64)

    def _send(self, *, heed: bool = True) -> None:
        """Send what was appended, then wait until another block has room beside what was not acknowledged."""
        if self._steps == 0:
            return
        self._steps = 0
        if heed and self._limiter is not None:
            self._heed(self._limiter)
        for shard, link in self._links.items():
            self._ship(shard, link)
            while link.most_behind(self._rows.inspect.heads) + 2 * self._block > self._span:
                self._wait(shard, link) if link.calls else self._ship(shard, link)

    def _heed(self, limiter: Ratio) -> None:
        """Wait while the limiter holds writers back."""
        begun = time.monotonic()
        links = list(self._links.items())
        while not limiter.may_insert(self.tally):
            for shard, link in links:
                while link.calls and link.arrived():
                    self._wait(shard, link)
                answer = link.call("look", self.tally.plain())
                if answer is not None:
                    self.tally.join(answer["tally"])
            self._check_time(begun, "a learner that draws samples")
            time.sleep(_NAP)

    def _ship(self, shard: int, link: _Link) -> None:
        """Send all rows that were not sent, once few enough are on their way."""
        while len(link.calls) >= self._unacked:
            self._wait(shard, link)
        heads, runs, named = self._rows.inspect.heads, [], []
        for where, place in enumerate(link.places):
            first, count = link.sent[where], int(heads[place]) - link.sent[where]
            if count > 0:
                runs.append((place, first, count))
                named.append((link.lanes[where], first + link.offsets[where], count))
                link.sent[where] = first + count
        if runs:
            link.send(self._rows.transfer.pack_rows(runs, np.array(named, np.int64)))

    def _wait(self, shard: int, link: _Link) -> None:
        """Take the oldest acknowledgement; if it does not come, all that was not acknowledged is to be sent again."""
        answer = link.answer(self._timeout)
        if answer is None or "stale" in answer:
            self._attach(shard, link)
            return
        if "taken" in answer:
            raise self._taken(link, answer["taken"])
        self.tally.join(answer["tally"])
        link.acknowledge(answer["heads"])

    def _attach(self, shard: int, link: _Link, *, begin: bool = False) -> None:
        """Ask a shard where its lanes go on, as long as it takes, and go on from there."""
        link.calls.clear()
        begun = time.monotonic()
        while True:
            acked = None if begin else [head + offset for head, offset in zip(link.acked, link.offsets, strict=True)]
            answer = link.call("attach", link.generation, link.lanes, acked, wait=_ANSWER)
            if answer is not None:
                break
            self._check_time(begun, f"shard {shard}")
            time.sleep(_AGAIN)
        if "taken" in answer:
            raise self._taken(link, answer["taken"])
        self.tally.join(answer["tally"])
        self.recoveries += not begin
        link.epoch, link.generation = answer["epoch"], answer["generation"]
        for where, head in enumerate(answer["heads"]):
            before = link.acked[where] + link.offsets[where]
            if begin or head < before:
                self.lost += 0 if begin else before - head
                link.offsets[where] = head - link.acked[where]
            else:
                link.acked[where] = head - link.offsets[where]
            link.heads[where] = head
            link.sent[where] = link.acked[where]

    def _taken(self, link: _Link, lane: int) -> StorageError:
        number = self.lanes[link.places[link.lanes.index(lane)]]
        return StorageError(f"lane {number}", "have one writer", "another that came later", "Take another lane.")

    def _check_time(self, begun: float, what: str) -> None:
        if self._timeout is not None and time.monotonic() - begun > self._timeout:
            raise StorageError(what, f"answer within {self._timeout} s", "nothing", "Look at Shards.state().")


@final
class _Link:
    """A writer's connection to one shard. Serials here are the writer's; a shard's are larger by the lane's offset."""

    def __init__(self, handle: Any, lanes: list[int], places: list[int]) -> None:
        self._handle, self.lanes, self.places = handle, lanes, places
        self._append = handle.append.options(concurrency_group="rows")
        self.epoch, self.generation = 0, time.time_ns()  # larger than of writers before a shard's death
        self.calls: deque[Any] = deque()
        self.acked, self.sent, self.offsets, self.heads = ([0] * len(lanes) for _ in range(4))

    def most_behind(self, heads: Any) -> int:
        """Rows of a lane that have not been acknowledged, at most."""
        return max(int(heads[place]) - self.acked[where] for where, place in enumerate(self.places))

    def send(self, data: bytes) -> None:
        """Send packed rows."""
        self.calls.append(self._append.remote(self.epoch, self.generation, self.lanes, data))

    def arrived(self) -> bool:
        """Whether the oldest call has been answered."""
        return bool(import_ray().wait([self.calls[0]], timeout=0)[0])

    def answer(self, timeout: float | None) -> dict[str, Any] | None:
        """What the oldest call was answered; None if the shard is gone."""
        return _got(self.calls.popleft(), timeout)

    def call(self, name: str, *given: Any, wait: float | None = None) -> dict[str, Any] | None:
        """What the shard answers; None if it is gone or does not answer."""
        group = "rows" if name in ("attach", "cut") else "control"
        return _got(getattr(self._handle, name).options(concurrency_group=group).remote(*given), wait)

    def acknowledge(self, heads: list[int]) -> None:
        """Take in where the lanes end at the shard."""
        self.heads = heads
        for where, head in enumerate(heads):
            self.acked[where] = max(self.acked[where], head - self.offsets[where])


def _got(call: Any, timeout: float | None) -> dict[str, Any] | None:
    ray = import_ray()
    try:
        return dict(ray.get(call, timeout=timeout))
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return None
