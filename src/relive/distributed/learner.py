"""Prefetched batches of a sharded memory: one distribution over the rows of all shards."""

from __future__ import annotations

import random
import secrets
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from relive.distributed.messages import Update, pack_updates, unpack_batches
from relive.distributed.ray_start import import_ray
from relive.distributed.shard import ShardSpec
from relive.distributed.tally import Ratio, Tally
from relive.errors import OptionError, StorageError
from relive.memory import Batch, Memory, Prioritized, Sampler, Shared
from relive.memory.checks import finite, host, whole
from relive.memory.samplers import check_beta
from relive.types import ArrayLike

__all__ = ["ShardLearner"]

_REFRESH = 0.1  # seconds after which a shard's total is asked for, if no batch came from it
_PATIENCE = 2.0  # seconds after which a shard that does not answer is excluded until it does
_NAP = 0.002
_LOOK_EVERY = 32  # batches read directly between two looks at whether their shards are still the same
_MOST_UPDATES = 256  # batches whose errors wait for the next call to their shard


class Restart(NamedTuple):
    """A shard that died and was restarted."""

    shard: int
    held: int
    """Steps that it held before, as last known."""
    kept: int
    """Steps that it was restored with."""


@final
@dataclass
class _View:
    """A learner's record of one shard."""

    index: int
    handle: Any
    sample: Any
    epoch: int = 0
    total: float = 0.0
    """Its total sampling weight; 0: empty or unknown."""
    least: float = 0.0
    heard: float = 0.0
    known: int = 0
    """The last known epoch, also if it is over."""
    held: int = 0
    """Its steps when it last answered."""
    over: set[int] = field(default_factory=set)
    """Earlier epochs, whose answers may still arrive."""
    updates: list[Update] = field(default_factory=list)
    look: Any = None
    """A pending state request."""
    asked: float = 0.0
    calls: int = 0
    away: bool = False
    """Whether it does not answer."""
    memory: Memory | None = None
    """Its rows, where they are read directly."""


@final
@dataclass(frozen=True)
class _Call:
    shard: int
    share: float
    """The probability with which this shard was chosen."""
    begun: float


@final
class ShardLearner(Iterator[Batch]):
    """An endless iterator of batches; see ``Shards.learner``. Use it in a ``with`` statement.

    Beside what a memory's batches hold, each has its ``ticket``: shard, epoch and number of the draw. ``lanes`` are
    numbers in the whole cluster.
    """

    def __init__(
        self,
        handles: list[Any],
        spec: ShardSpec,
        sampler: Sampler,
        limiter: Ratio | None,
        size: int,
        *,
        ahead: int,
        group: int,
        timeout: float | None,
        direct: bool,
    ) -> None:
        self.size = whole("size", size, 1, 2**31 - 1)
        self._ahead, self._group = whole("ahead", ahead, 1, 1024), whole("group", group, 1, 1024)
        self._spec, self._sampler, self._limiter, self._timeout = spec, sampler, limiter, timeout
        self.tally, self._name = Tally(), f"learner-{secrets.token_hex(6)}"
        self._views = [
            _View(index, handle, handle.sample.options(concurrency_group="draws"))
            for index, handle in enumerate(handles)
        ]
        self._random = random.Random(spec.seed)
        self._calls: dict[Any, _Call] = {}
        self._ready: deque[Batch] = deque()
        self.batches = 0
        self.restarts: list[Restart] = []
        """Restarts of shards that this learner noticed."""
        self._direct, self._drawn = direct, 0
        self._look_at_all(wait=True)

    # ---- batches ---------------------------------------------------------------------------------------------------

    def __next__(self) -> Batch:
        batch = self._next_direct() if self._direct else self._next_called()
        self.batches += 1
        self.tally.count("sampled", self._name, self.size)
        return batch

    def update_priorities(self, batch: Batch, errors: ArrayLike) -> None:
        """Set the priorities of a batch's rows from their errors ``[B]``; signs do not matter.

        They go with the next call to its shard. Those for rows that were overwritten since, or that a shard lost, are
        dropped and counted there.
        """
        if not isinstance(self._sampler, Prioritized):
            raise OptionError("sampler", "be Prioritized to have priorities", type(self._sampler).__name__)
        try:
            shard, epoch, draw = batch["ticket"].tolist()
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OptionError("batch", "have a ticket", type(batch).__name__, "Pass one of this learner's.") from None
        view, lanes, serials = self._views[shard], batch["lanes"], batch["serials"]
        if self._direct:
            if view.memory is not None and view.epoch == epoch:
                lanes = lanes - shard * self._spec.lanes if shard else lanes
                view.memory.update_priorities({"lanes": lanes, "serials": serials}, errors)
            return
        values = finite(host("errors", errors), lanes, serials)
        view.updates.append(Update(epoch, draw, values))
        if len(view.updates) > _MOST_UPDATES:
            self._ask(view)

    @property
    def beta(self) -> float:
        """The exponent of the next batch's weights."""
        if not isinstance(self._sampler, Prioritized):
            return 0.0
        chosen = self._sampler.beta
        return check_beta(chosen(self.batches)) if callable(chosen) else chosen

    @property
    def totals(self) -> list[float]:
        """The total sampling weight of each shard, as last known."""
        return [view.total for view in self._views]

    def refresh(self) -> None:
        """Update the state of all shards; waits for their answers, except of dead ones."""
        self._look_at_all(wait=True)

    def close(self) -> None:
        """Send pending priorities and drop prefetched batches."""
        ray = import_ray()
        if not self._direct and ray.is_initialized():
            for view in self._views:
                if view.updates and not view.away:
                    self._ask(view)
            asked = [view.look for view in self._views if view.look is not None]
            if asked:
                ray.wait(asked, num_returns=len(asked), timeout=_PATIENCE)
        for view in self._views:
            if view.memory is not None:
                view.memory.close()
                view.memory = None
        self._calls.clear()
        self._ready.clear()

    def __enter__(self) -> ShardLearner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- by calls --------------------------------------------------------------------------------------------------

    def _next_called(self) -> Batch:
        ray = import_ray()
        begun = time.monotonic()
        while not self._ready:
            self._look_at_all(wait=False)
            self._draw_ahead()
            if self._calls:
                done, _ = ray.wait(list(self._calls), num_returns=1, timeout=0.1)
                for call in done:
                    self._take(call, self._calls.pop(call))
            else:
                time.sleep(_NAP)
            self._check_time(begun)
        if len(self._calls) < self._ahead:
            self._draw_ahead()
        return self._ready.popleft()

    def _draw_ahead(self) -> None:
        """Send calls, each to a shard that is drawn in proportion to the totals."""
        now = time.monotonic()
        for call in self._calls.values():
            if now - call.begun > _PATIENCE:
                self._views[call.shard].away = True
        answering = sum(not self._views[call.shard].away for call in self._calls.values())
        while answering < self._ahead and self._may_sample(answering):
            chosen = self._choose()
            if chosen is None:
                return
            shard, share = chosen
            view = self._views[shard]
            updates, view.updates = pack_updates(view.updates), []
            call = view.sample.remote(self.size, self._group, self.beta, updates, self.tally.plain())
            self._calls[call] = _Call(shard, share, now)
            answering += 1

    def _choose(self) -> tuple[int, float] | None:
        """A shard, and the probability with which it was chosen; None if nothing can be drawn."""
        totals = [0.0 if view.away else view.total for view in self._views]
        of_all = sum(totals)
        if not of_all > 0:
            return None
        left, shard = self._random.random() * of_all, -1
        for index, total in enumerate(totals):
            if total > 0:  # rounding never leads to one that has nothing
                shard = index
                left -= total
                if left < 0:
                    break
        return shard, totals[shard] / of_all

    def _take(self, call: Any, about: _Call) -> None:
        ray, view = import_ray(), self._views[about.shard]
        try:
            head, batches = unpack_batches(ray.get(call))
        except ray.exceptions.RayActorError:
            self._lose(view)
            return
        if not self._hear(view, head):
            return
        factor = self._factor(view, about.share)
        for place, batch in enumerate(batches):
            if factor != 1.0:
                batch.weights = np.minimum(batch.weights * np.float32(factor), np.float32(1))
            batch.action_keys = self._spec.schema.action_keys
            batch.ticket = np.array([about.shard, view.epoch, head["first"] + place], np.int64)
            self._ready.append(batch)

    def _factor(self, view: _View, share: float) -> float:
        """The factor from a shard's importance weights to those over all shards: (P_min / P)^beta, where P is the
        probability of choosing the shard over its total.
        """
        if not isinstance(self._sampler, Prioritized) or not view.total > 0:
            return 1.0
        known = [other for other in self._views if other.total > 0]
        whole_total = sum(other.total for other in known)
        least = min(other.least for other in known) / whole_total
        return float(min(least / (share * view.least / view.total), 1.0) ** self.beta)

    # ---- directly --------------------------------------------------------------------------------------------------

    def _next_direct(self) -> Batch:
        """A batch from shared memory."""
        if self._drawn % _LOOK_EVERY == 0:
            self._look_at_all(wait=False)
        batch = self._drawn_directly()
        begun = time.monotonic()
        while batch is None:
            self._check_time(begun)
            time.sleep(_NAP)
            self._look_at_all(wait=False)
            batch = self._drawn_directly()
        return batch

    def _drawn_directly(self) -> Batch | None:
        """None if nothing can be drawn."""
        if self._limiter is not None and not self._may_sample(0):
            return None
        for view in self._views:
            if view.memory is not None:
                view.total, view.least = view.memory.transfer.sampling_weight
        chosen = self._choose()
        if chosen is None:
            return None
        shard, share = chosen
        view = self._views[shard]
        assert view.memory is not None
        batch = view.memory.sample(self.size, beta=self.beta)
        if len(self._views) > 1:
            factor = self._factor(view, share)
            if factor != 1.0:
                batch.weights = np.minimum(batch.weights * np.float32(factor), np.float32(1))
            batch.lanes += shard * self._spec.lanes
        self._drawn += 1
        batch.ticket = np.array((shard, view.epoch, self._drawn), np.int64)
        return batch

    def _attach(self, view: _View, segment: str) -> None:
        """Read a shard's segment instead of the one before."""
        if view.memory is not None:
            view.memory.close()
        parts: dict[str, Any] = {"window": self._spec.window, "stack": self._spec.stack, "seed": self._spec.seed}
        try:
            view.memory = Memory.open(Shared(segment), sampler=self._spec.sampler, **parts)
        except StorageError:  # gone again
            view.memory, view.total = None, 0.0

    # ---- state of shards -------------------------------------------------------------------------------------------

    def _look_at_all(self, *, wait: bool) -> None:
        """Request the state of shards without recent answers, and process the answers."""
        ray, now = import_ray(), time.monotonic()
        often = _REFRESH if self._limiter is None or self._ready or self._may_sample(0) else _NAP
        for view in self._views:
            if view.look is None and (wait or now - max(view.heard, view.asked) > often):
                self._ask(view)
        looks = {view.look: view for view in self._views if view.look is not None}
        if not looks:
            return
        count, timeout = (len(looks), _PATIENCE) if wait else (1, 0)
        done, _ = ray.wait(list(looks), num_returns=min(count, len(looks)), timeout=timeout)
        for call in done:
            view = looks[call]
            view.look = None
            try:
                head = ray.get(call)
            except ray.exceptions.RayActorError:
                self._lose(view)
                continue
            fresh = head["epoch"] != view.epoch
            if self._hear(view, head) and self._direct and (fresh or view.memory is None):
                self._attach(view, head["segment"])

    def _ask(self, view: _View) -> None:
        updates, view.updates = pack_updates(view.updates), []
        view.look = view.handle.look.options(concurrency_group="control").remote(self.tally.plain(), updates)
        view.asked = time.monotonic()

    def _hear(self, view: _View, head: dict[str, Any]) -> bool:
        """Update a shard's state; returns False for an answer from before its restart."""
        if head["epoch"] in view.over:
            return False
        self.tally.join(head["tally"])
        if head["epoch"] != view.known:
            view.updates = [update for update in view.updates if update.epoch == head["epoch"]]
            if view.known:
                view.over.add(view.known)
                self.restarts.append(Restart(view.index, view.held, head["restored"]))
            view.known = head["epoch"]
        view.held = head["held"]
        view.epoch, view.total, view.least = head["epoch"], head["total"], head["least"]
        view.heard, view.away = time.monotonic(), False
        return True

    def _lose(self, view: _View) -> None:
        """Mark a shard as dead until it answers again."""
        view.total, view.least, view.epoch, view.updates = 0.0, 0.0, 0, []
        view.asked = time.monotonic()

    def _may_sample(self, calls: int) -> bool:
        if self._limiter is None:
            return True
        drawing = (calls * self._group + len(self._ready)) * self.size
        return self._limiter.may_sample(self.tally, drawing=drawing)

    def _check_time(self, begun: float) -> None:
        if self._timeout is not None and time.monotonic() - begun > self._timeout:
            what = "Nothing was inserted, or a limiter waits for writers: look at Shards.state()."
            raise StorageError("shards", f"give a batch within {self._timeout} s", "none", what)
