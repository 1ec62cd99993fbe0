"""One shard: an ordinary memory in a process of its own, which writers send rows to and learners draw from."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

from relive.distributed.messages import Layout, head_of, pack_batches, unpack_updates
from relive.distributed.ray_start import import_ray
from relive.distributed.tally import Tally
from relive.errors import NotEnoughRows, OptionError
from relive.memory import Mapped, Memory, Ram, Sampler, Shared, Storage, Window
from relive.memory.packing import unpack
from relive.schema import Schema

__all__ = ["DURABILITIES", "STORAGES", "Shard", "ShardSpec"]

DURABILITIES = ("none", "snapshot", "journal")
STORAGES = ("ram", "shared", "mapped")

_REMEMBERED = 4096  # batches whose rows are known until their errors come
_LOOK = 0.25  # seconds between looks at whether to save


@final
@dataclass(frozen=True)
class ShardSpec:
    """All that a shard is made of; data only."""

    cluster: str
    index: int
    schema: Schema
    capacity: int
    lanes: int
    sampler: Sampler
    window: Window
    stack: dict[str, int]
    max_episodes: int | None
    seed: int
    storage: Literal["ram", "shared", "mapped"]
    durability: Literal["none", "snapshot", "journal"]
    folder: str | None
    save_every: float
    journal_bytes: int
    source: str | None = None
    """A snapshot to begin from, the first time."""
    tally: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called in counts and files."""
        return f"shard-{self.index}"


@final
class Shard:
    """A memory behind calls, for several threads.

    Ray makes it again when its process dies: then it goes on from what its durability kept, or else from the snapshot
    that the cluster began with, in a new epoch.
    """

    def __init__(self, spec: ShardSpec) -> None:
        self.spec = spec
        self.epoch = secrets.randbits(62)
        self.tally = Tally()
        if spec.tally:
            self.tally.join(spec.tally)
        self.segment = f"{spec.cluster}-{spec.index}-{self.epoch:x}" if spec.storage == "shared" else ""
        self.memory = self._open()
        self._generations = [0] * spec.lanes
        self._draws: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        self._layouts: dict[int, Layout] = {}
        """Of batches by their size, where all are alike."""
        self._first_lane = spec.index * spec.lanes
        self._number, self._late, self._stamp = 0, 0, time.time_ns()
        self._writing = threading.Lock()
        """Held while rows are stored, and while they are saved where no journal follows."""
        self._drawing = threading.Lock()
        """Held while rows are drawn or given priorities, so that draws have their numbers in order."""
        self._saving = threading.Lock()
        self._failure = ""
        self._restored = len(self.memory)
        """The steps that it began with."""
        self._note_held()
        if spec.durability != "none":
            self._keep()
            threading.Thread(target=self._keep_on, name="relive-shard", daemon=True).start()

    # ---- rows ------------------------------------------------------------------------------------------------------

    def attach(self, generation: int, lanes: list[int], acked: list[int] | None) -> dict[str, Any]:
        """Let a writer have lanes, and say where each goes on; not one that comes back after a later one began.

        Args:
            generation: Later writers have larger ones: one that begins gets one here that is.
            acked: Serials up to which the writer knows that rows were stored; None: it begins, and open episodes of
                these lanes are cut. They also are where rows were lost that the writer has no more.
        """
        with self._writing:
            if acked is None:
                generation = max(generation, 1 + max(self._generations[lane] for lane in lanes))
            for lane in lanes:
                if self._generations[lane] > generation:
                    return {"taken": lane}
            for place, lane in enumerate(lanes):
                self._generations[lane] = generation
                if acked is None or int(self.memory.inspect.heads[lane]) < acked[place]:
                    self.memory.cut(lane)
            self._note_held()
        found = {"epoch": self.epoch, "generation": generation, "heads": self._heads(lanes)}
        return {**found, "tally": self.tally.plain()}

    def append(self, epoch: int, generation: int, lanes: list[int], rows: bytes) -> dict[str, Any]:
        """Store packed rows of a writer's lanes; once this returns they are as safe as was asked for."""
        if epoch != self.epoch:
            return {"stale": True}
        with self._writing:
            for lane in lanes:
                if self._generations[lane] > generation:
                    return {"taken": lane}
            heads = self.memory.inspect.heads
            for run in unpack(self.spec.schema, self.spec.lanes, self.spec.capacity // self.spec.lanes, rows):
                if run.lane not in lanes:
                    raise OptionError("rows", f"be of the writer's lanes {lanes}", f"some of lane {run.lane}")
                if run.serial > heads[run.lane]:  # calls before it failed
                    return {"stale": True}
            steps = self.memory.transfer.receive_rows(rows)
        if steps:
            self.tally.count("inserted", self._source, steps)
            self._note_held()
        return {"epoch": self.epoch, "heads": self._heads(lanes), "tally": self.tally.plain()}

    def cut(self, epoch: int, generation: int, lane: int, head: int) -> dict[str, Any]:
        """End the open episode of a lane that ends at a serial; nothing if it went on since or was cut already."""
        if epoch != self.epoch or self._generations[lane] > generation:
            return {"stale": True}
        with self._writing:
            if int(self.memory.inspect.heads[lane]) == head:
                self.memory.cut(lane)
                self._note_held()
        return {"epoch": self.epoch, "heads": self._heads([lane])}

    # ---- draws -----------------------------------------------------------------------------------------------------

    def sample(self, size: int, batches: int, beta: float, updates: bytes, tally: dict[str, Any]) -> bytes:
        """Batches, each drawn by itself, after earlier ones' priorities have been set; none if there is too little."""
        self.tally.join(tally)
        self.update_priorities(updates)
        with self._drawing:
            head = {**self._head(self.memory.transfer.sampling_weight), "first": self._number}
            try:
                layout = self._layouts.get(size)
                if layout is None:
                    return self._sample_singly(head, size, batches, beta)
                begin = head_of(head, [layout.described], [0] * batches)
                drawn = self.memory.transfer.sample_bytes(
                    size, batches, head=begin, first_lane=self._first_lane, beta=beta
                )
            except NotEnoughRows:
                return pack_batches(head, [])
            for place in range(batches):
                self._remember(*layout.drawn(drawn, len(begin) + place * layout.nbytes, size))
            return drawn

    def _sample_singly(self, head: dict[str, Any], size: int, batches: int, beta: float) -> bytes:
        """Batches of a size for the first time, or whose arrays differ from one to the next."""
        drawn = []
        for _ in range(batches):
            batch = self.memory.sample(size, beta=beta)
            batch.lanes += self._first_lane
            self._remember(batch.lanes, batch.serials)
            drawn.append(batch)
        if self.memory.transfer.can_sample_bytes:
            self._layouts[size] = Layout.of(drawn[0])
        return pack_batches(head, drawn)

    def _remember(self, lanes: Any, serials: Any) -> None:
        """Know the rows of a batch until their errors come; by copies, as a view would keep all of its memory."""
        self._draws[self._number] = (lanes - self._first_lane, serials.copy())
        self._number += 1
        if len(self._draws) > _REMEMBERED:
            self._draws.popitem(last=False)

    def look(self, tally: dict[str, Any], updates: bytes = b"") -> dict[str, Any]:
        """The total sampling weight, and the counts."""
        self.tally.join(tally)
        self.update_priorities(updates)
        return self._head(self.memory.transfer.sampling_weight)

    def update_priorities(self, updates: bytes) -> None:
        """Set priorities of batches drawn here; those of another epoch, or drawn long ago, are dropped and counted."""
        with self._drawing:
            for update in unpack_updates(updates):
                rows = self._draws.pop(update.draw, None) if update.epoch == self.epoch else None
                if rows is None or len(rows[1]) != update.errors.size:
                    self._late += update.errors.size
                    continue
                self.memory.update_priorities({"lanes": rows[0], "serials": rows[1]}, update.errors)

    # ---- persistence -----------------------------------------------------------------------------------------------

    def save(self, folder: str) -> None:
        """Save a snapshot of its own, beside what durability keeps."""
        if self.spec.durability != "journal":
            with self._saving:
                self.memory.save(folder)
            return
        with self._saving, self._writing:  # a save elsewhere ends the journal: no row may come before the next
            self.memory.save(folder)
            self.memory.save(self._folder, journal="written")

    def state(self) -> dict[str, Any]:
        """The shard's state, for monitoring."""
        memory = self.memory
        total, least = memory.transfer.sampling_weight
        return {
            "epoch": self.epoch,
            "steps": len(memory),
            "ready": memory.ready,
            "full": memory.inspect.overwrites,
            "nbytes": memory.nbytes,
            "total": total,
            "least": least,
            "inserted": self.tally.plain()["inserted"].get(self._source, 0),
            "batches": self._number,
            "dropped": memory.dropped + self._late,
            "heads": memory.inspect.heads.tolist(),
            "pid": os.getpid(),
            "node": import_ray().get_runtime_context().get_node_id(),
            "segment": self.segment,
            "tally": self.tally.plain(),
            "failure": self._failure,
        }

    def close(self) -> None:
        """Release storage that would outlive the process."""
        with self._saving, self._writing, self._drawing:
            self.memory.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    @property
    def _source(self) -> str:
        return f"{self.spec.name}:{self.epoch:x}"

    @property
    def _folder(self) -> Path:
        assert self.spec.folder is not None
        return Path(self.spec.folder) / self.spec.name

    def _head(self, weight: tuple[float, float]) -> dict[str, Any]:
        total, least = weight
        return {
            "epoch": self.epoch,
            "total": total,
            "least": least,
            "segment": self.segment,
            "restored": self._restored,
            "held": len(self.memory),
            "tally": self.tally.plain(),
        }

    def _heads(self, lanes: list[int]) -> list[int]:
        heads = self.memory.inspect.heads
        return [int(heads[lane]) for lane in lanes]

    def _note_held(self) -> None:
        self._stamp += 1
        self.tally.hold(self.spec.name, self._stamp, len(self.memory))

    def _open(self) -> Memory:
        spec = self.spec
        options: dict[str, Any] = {"sampler": spec.sampler, "window": spec.window, "stack": spec.stack}
        if spec.storage == "mapped":
            path = self._folder / "rows"
            if path.exists():
                return Memory.open(Mapped(path), **options, max_episodes=spec.max_episodes, seed=spec.seed + spec.index)
            path.parent.mkdir(parents=True, exist_ok=True)
        source = None
        if spec.durability != "none" and (self._folder / "manifest.json").exists():
            source = self._folder
        elif spec.source is not None:
            source = Path(spec.source)
        if source is not None:
            return Memory.load(source, **options, storage=self._storage())
        return Memory(
            spec.schema,
            spec.capacity,
            spec.lanes,
            **options,
            max_episodes=spec.max_episodes,
            storage=self._storage(),
            seed=spec.seed + spec.index,
        )

    def _storage(self) -> Storage:
        if self.spec.storage == "shared":
            Shared.sweep()
            return Shared(self.segment)
        if self.spec.storage == "mapped":
            return Mapped(self._folder / "rows")
        return Ram()

    def _keep(self) -> None:
        """Save as durability asks for."""
        with self._saving:
            self.memory.save(self._folder, journal="written" if self.spec.durability == "journal" else None)

    def _keep_on(self) -> None:
        """Save again when that is due: by time, or when the journal has grown."""
        saved = time.monotonic()
        while True:
            time.sleep(_LOOK)
            due = time.monotonic() - saved >= self.spec.save_every
            if self.spec.durability == "journal":
                due = due or _bytes_of(self._folder, "journal-*.log") > self.spec.journal_bytes
            if not due:
                continue
            try:
                self._keep()
                self._failure = ""
            except Exception as error:  # rows go on; state() says so
                self._failure = f"{type(error).__name__}: {error}"
            saved = time.monotonic()


def _bytes_of(folder: Path, pattern: str) -> int:
    try:
        return sum(path.stat().st_size for path in folder.glob(pattern))
    except OSError:
        return 0
