"""A timeline, read through a window by a sampler."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

import numpy as np

from relive import _core
from relive.errors import OptionError
from relive.memory import checks, refusals
from relive.memory.batch import Batch, Nest, flat, nested
from relive.memory.copying import packed, unpacked
from relive.memory.datasets import read_dataset, read_episodes, write_dataset, write_episode
from relive.memory.newest import newest
from relive.memory.packing import pack, unpack
from relive.memory.parts import check_parts
from relive.memory.prefetch import Prefetch
from relive.memory.samplers import Prioritized, Sampler, Shuffled, Uniform, check_beta
from relive.memory.snapshot import Subject, SystemDisk, codec_of, opened, save
from relive.memory.storage import Layout, Ram
from relive.memory.storage.ground import Closed, Existing, Ground, Storage
from relive.memory.windows import Transition, Window, rows_read
from relive.memory.writing import write
from relive.messages import brief
from relive.schema import Schema
from relive.types import Array, ArrayLike, Lanes, Value

__all__ = ["Memory"]

_RANDOM_STATE = ("key0", "key1", "position", "batches")


@final
class Memory:
    """Rows of experience in lanes, sampled through a window.

    Args:
        capacity: Rows in all, closing rows included; a multiple of ``lanes``.
        lanes: Vectorised environments that write; values of a step then have a first axis ``[lanes, ...]``. None:
            one environment, and values without that axis.
        stack: Frames to stack when an observed field is read, by name; the episode's first frame is repeated.
        max_episodes: Ended episodes to keep: beyond them the oldest are forgotten, and their RAM goes back to the
            system. Where several processes write, every lane keeps its share of them. None: all there is room for.
        storage: Where rows live: ``Ram()``, ``Mapped(path)`` or ``Shared(name)``. It must be new; ``Memory.open``
            opens existing storage.
        threads: Threads that may share the copying of a batch of 8 MiB or more, 1 or 2.

    >>> import relive as rl
    >>> memory = rl.Memory(rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8")), capacity=100, seed=0)
    >>> for t in range(3):
    ...     memory.append(obs=[t, t], action=1, reward=1.0, terminated=t == 2, truncated=False)
    >>> memory.sample(4).next_obs.shape
    (4, 2)
    """

    def __init__(
        self,
        schema: Schema,
        capacity: int,
        lanes: int | None = None,
        *,
        sampler: Sampler | None = None,
        window: Window | None = None,
        stack: Mapping[str, int] | None = None,
        max_episodes: int | None = None,
        storage: Storage | None = None,
        seed: int | None = None,
        threads: int = 1,
    ) -> None:
        check_parts(schema=schema, sampler=sampler, window=window, storage=storage)
        self.schema = schema
        self.sampler: Sampler = sampler if sampler is not None else Uniform()
        self.window: Window = window if window is not None else Transition()
        self.stack = checks.frame_counts(schema, {} if stack is None else stack)
        self.lanes = checks.lane_count(lanes)
        self.capacity = checks.row_count(capacity, self.lanes, schema.row_nbytes)
        self.max_episodes = None if max_episodes is None else checks.whole("max_episodes", max_episodes, 1, 2**62)
        self._threads = checks.whole("threads", threads, 1, 2)
        self.bare = lanes is None
        """Whether values have no lane axis, since there is one environment."""
        self._span = self.capacity // self.lanes
        spec = self.window.spec()
        least = rows_read(spec, max(self.stack.values(), default=1))
        if self._span < least:
            raise OptionError(
                "capacity",
                f"give every lane the {least} rows that the window reads",
                f"{self.capacity} rows for {self.lanes} lanes",
                f"Use at least {least * self.lanes}.",
            )
        found = {output[0]: output for output in self.window.outputs(schema, self.stack)}
        outputs = [output for _, output in flat(nested(found))]  # in the order of a batch
        key = checks.key(seed)
        self._ground: Ground = (storage or Ram()).open(Layout(schema, self.lanes, self._span, self.bare))
        self._store = self._ground.store
        self._reader = _core.Reader(self._store, list(outputs), spec, self.sampler.spec(), *key)
        self._subject = Subject(self._ground, self._reader, self.sampler, self.window, self.stack, self.max_episodes)
        if self.max_episodes is not None:
            self._store.keep_episodes(self.max_episodes)
        self._nested = any("/" in key for key, *_ in outputs)

    # ---- writing ---------------------------------------------------------------------------------------------------

    def append(self, /, *, lanes: Lanes = None, **step: Value) -> None:
        """Append one step of all lanes, or of some.

        A step has every field, ``terminated`` and ``truncated``. Where an episode ends it also has the final
        observation as ``final_<field>`` of every observed field: required where truncated, otherwise the last
        observation stands in. Final values of lanes that did not end are ignored, and may be None.

        Args:
            lanes: Lanes that step, ``[k]`` numbers or a boolean mask, with values ``[k, ...]``; or one lane's
                number, with values without a lane axis. None: all.

        Raises:
            StepError: With every problem of the step. Nothing is stored.
        """
        self._write(step, lanes, block=False)

    def extend(self, /, *, lanes: Lanes = None, **block: Value) -> None:
        """Append a block of steps: values ``[T, lanes, ...]``, or ``[T, ...]`` for one lane.

        ``final_<field>`` is either of the same leading shape or has one row an ended step, in the block's order.
        """
        self._write(block, lanes, block=True)

    def cut(self, lanes: Lanes = None) -> None:
        """End the open episodes of lanes whose environments were reset without an end.

        The newest row's outcome will never be known, so it becomes the final observation of the step before it.
        """
        lanes = np.arange(self.lanes) if lanes is None else np.atleast_1d(checks.some_lanes(lanes, self.lanes))
        self._ground.write_to(lanes)
        for lane in lanes:
            self._store.cut(int(lane))

    def forget(self, lane: int, before: int) -> None:
        """Forget a lane's rows below a serial, such as an episode's ``start``; their RAM goes back to the system.

        ``Memory(..., max_episodes=100)`` does that for the newest hundred episodes however long they are.
        """
        lane = checks.whole("lane", lane, 0, self.lanes - 1)
        before = checks.whole("before", before, 0, 2**63 - 1)
        self._ground.write_to(lane)
        self._store.forget(lane, before)

    def clear(self) -> None:
        """Forget all rows and priorities. Serials go on counting, so older batches are still known to be stale."""
        self._ground.check_attached()
        self._store.clear()
        self._reader.forget()

    # ---- reading ---------------------------------------------------------------------------------------------------

    def sample(self, size: int, *, beta: float | None = None) -> Batch:
        """Draw ``size`` rows and read each through the window.

        Args:
            beta: Exponent of the weights for this batch, in place of the sampler's.

        Raises:
            NotEnoughRows: If there is nothing to draw, or too little to draw without replacement.
        """
        if type(size) is not int or not 0 < size < 2**31:
            size = checks.whole("size", size, 1, 2**31 - 1)
        drawn = self._reader.sample(size, self._beta(beta), self._threads)
        if not isinstance(drawn, dict):
            raise refusals.not_enough(size, drawn, len(self), self._span)
        return nested(drawn) if self._nested else Batch(drawn)

    def sample_bytes(
        self, size: int, count: int, *, head: bytes = b"", first_lane: int = 0, beta: float | None = None
    ) -> bytes:
        """Draw ``count`` independent batches, serialised to bytes without a copy.

        A batch is its arrays in the order of ``sample``, each padded with zeros to a multiple of 64 bytes.

        Args:
            head: What the bytes begin with: a multiple of 16 of them.
            first_lane: Added to the numbers of lanes.
            beta: As of ``sample``.

        Raises:
            OptionError: If batches of a size are not all alike: of whole episodes, or by ``Shuffled``.
            NotEnoughRows: As of ``sample``. Batches that had been drawn are lost.
        """
        size, count = checks.whole("size", size, 1, 2**31 - 1), checks.whole("count", count, 1, 2**31 - 1)
        if not self.batches_alike:
            raise OptionError("window", "give batches that are all alike", f"{self.window} by {self.sampler}")
        if len(head) % 16:
            raise OptionError("head", "be a multiple of 16 bytes", len(head))
        drawn = self._reader.sample_bytes(head, count, size, self._beta(beta), self._threads, first_lane)
        if not isinstance(drawn, bytes):
            raise refusals.not_enough(size, drawn, len(self), self._span)
        return drawn

    @property
    def batches_alike(self) -> bool:
        """Whether the arrays of all batches of a size have the same shapes."""
        return self._reader.room(1) > 0

    def read(self, lanes: ArrayLike, serials: ArrayLike) -> Batch:
        """Read chosen rows through the window, for instance those of an earlier batch.

        Raises:
            StaleRows: If a row was overwritten, is not complete yet, or cannot begin this window.
        """
        where, which = checks.rows(lanes, serials)
        drawn = self._reader.read(where, which, self._threads)
        if not isinstance(drawn, dict):
            raise refusals.stale(drawn, int(where[drawn]), int(which[drawn]), *self._store.heads())
        return nested(drawn) if self._nested else Batch(drawn)

    def newest(self, size: int) -> Batch:
        """The newest ``size`` steps of all lanes as they are stored, without a window, or as many as there are."""
        return newest(self._store, self.schema, checks.whole("size", size, 1, 2**31 - 1))

    def update_priorities(self, batch: Mapping[str, Any], errors: ArrayLike) -> int:
        """Set the priorities of a batch's rows from their errors ``[B]``; signs do not matter.

        Returns how many rows could no longer be drawn; their priorities are dropped and counted in ``dropped``.
        """
        if not isinstance(self.sampler, Prioritized):
            raise OptionError("sampler", "be Prioritized to have priorities", type(self.sampler).__name__)
        lanes, serials = checks.row_names(batch)
        errors = checks.host("errors", errors)
        dropped = self._reader.update_priorities(lanes, serials, errors)
        if dropped < 0:
            dropped = self._reader.update_priorities(lanes, serials, checks.finite(errors, lanes, serials))
        return dropped

    @property
    def dropped(self) -> int:
        """Priorities that came for rows which could no longer be drawn."""
        return self._reader.counts()[4]

    def epoch(self, size: int) -> Iterator[Batch]:
        """Iterate once over the rows there are now in random order, ``size`` at a time; the last batch may be smaller.

        Rows that are overwritten before their turn raise StaleRows.
        """
        size = checks.whole("size", size, 1, 2**31 - 1)
        lanes, serials = self._reader.order()
        for start in range(0, len(serials), size):
            yield self.read(lanes[start : start + size], serials[start : start + size])

    def prefetch(self, size: int, *, ahead: int = 2) -> Prefetch[Batch]:
        """An endless iterator whose batches are drawn by a background thread, ``ahead`` of their use.

        >>> with memory.prefetch(256) as batches:  # doctest: +SKIP
        ...     for batch in batches: ...
        """
        return Prefetch(lambda: self.sample(size), checks.whole("ahead", ahead, 1, 1024))

    # ---- looking ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Steps stored; closing rows do not count."""
        return self._store.steps()

    @property
    def ready(self) -> int:
        """Rows that can be drawn now with this window."""
        return self._reader.ready()

    @property
    def full(self) -> bool:
        """True once every new row overwrites an old one."""
        return self._store.full()

    @property
    def nbytes(self) -> int:
        """Bytes of rows, flags, episode index and priorities. Pages never written to take no RAM yet."""
        return self._store.nbytes() + self._reader.nbytes()

    @property
    def used_nbytes(self) -> int:
        """Bytes of the rows held now, closing rows included."""
        tails, heads = self._store.heads()
        return int(self.nbytes * (int((heads - tails).sum()) / self.capacity))

    @property
    def episodes(self) -> Nest:
        """Episodes with steps in memory, as arrays: ``lane``, ``id``, ``start``, ``length``, ``terminated``,
        ``truncated``, ``whole`` (False if the first steps were overwritten). An id counts within its lane.
        """
        lane, number, start, end, flags = self._store.episodes()
        tails, _ = self._store.heads()
        return Nest(
            lane=lane,
            id=number,
            start=start,
            length=end - start,
            terminated=(flags & 1) != 0,
            truncated=(flags & 2) != 0,
            whole=start >= tails[lane],
        )

    @property
    def priorities(self) -> Array:
        """Priorities raised to alpha, ``[lanes, rows of a lane]``; 0 where nothing can be drawn."""
        if not isinstance(self.sampler, Prioritized):
            raise OptionError("sampler", "be Prioritized to have priorities", type(self.sampler).__name__)
        return self._reader.priorities()

    def count_draws(self, on: bool = True) -> bool:
        """Count from now on how often each row is drawn, for ``census``; 8 bytes a row. False: no longer.

        Returns whether draws were counted before.
        """
        return self._reader.count_draws(bool(on))

    def draw_counts(self, rows: Mapping[str, Any]) -> Array | None:
        """How often each of some rows (``lanes`` and ``serials``, as in a batch) was drawn since ``count_draws``,
        ``[B]``; 0 for rows no longer held. None unless draws are counted.
        """
        return self._reader.draw_counts(*checks.row_names(rows))

    def census(self, most: int = 1_000_000) -> Nest:
        """Histograms of the rows: over ``rows`` of them, every ``stride``-th so that they are at most ``most``.

        ``ages``: rows from the newest to as old as a row can be. ``drawn_ages``: draws of these, and ``draws_each``:
        rows by their draws (none, 1, 2 to 3, 4 to 7 and so on), both None unless draws are counted. ``priorities``:
        rows by the power of two below their priority, from 2^-32 on, with ``total``, ``least``, ``most`` and
        ``effective``, the effective sample size (sum p)^2 / sum p^2. None unless the sampler has priorities.
        """
        most = checks.whole("most", most, 1, 2**62)
        tails, heads = self._store.heads()
        stride = max(1, -(-int((heads - tails).sum()) // most))
        found = self._reader.census(stride)
        rows, draws, prioritized, total, squares, least, largest, ages, drawn, each, priorities = found
        return Nest(
            rows=rows,
            stride=stride,
            ages=ages,
            draws=None if draws < 0 else draws,
            drawn_ages=None if draws < 0 else drawn,
            draws_each=None if draws < 0 else each,
            priorities=priorities if prioritized else None,
            total=total,
            least=least,
            most=largest,
            effective=stride * total**2 / squares if squares else None,
        )

    @property
    def random_state(self) -> dict[str, int]:
        """State of the memory's generator, and how many batches it drew; restoring it repeats the same draws from
        the same rows and priorities. ``Shuffled`` starts a new epoch.
        """
        return dict(zip(_RANDOM_STATE, self._reader.counts(), strict=False))

    @random_state.setter
    def random_state(self, state: Mapping[str, int]) -> None:
        if not isinstance(state, Mapping) or not set(_RANDOM_STATE) <= set(state):
            raise OptionError("random_state", f"have {', '.join(_RANDOM_STATE)}", brief(state))
        key0, key1, position, batches = (checks.whole(name, state[name], 0, 2**64 - 1) for name in _RANDOM_STATE)
        self._reader.seek(key0, key1, position, min(batches, 2**63 - 1), None)
        if isinstance(self.sampler, Shuffled):
            self._reader.forget()

    def __getitem__(self, key: str) -> Array:
        """A read-only view of a field in the order of its slots, ``[lanes, rows, ...]``, closing rows included.

        ``terminated`` and ``truncated`` come as copies.
        """
        tails, heads = self._store.heads()
        rows = int(min(self._span, heads.max())) if (heads > tails).any() else 0
        if key in ("terminated", "truncated"):
            view = (self._store.flags()[:, :rows] & (1 if key == "terminated" else 2)) != 0
            view.flags.writeable = False
        else:
            view = self._store.view(self.schema.columns.index(self.schema[key]), False)[:, :rows]
        return np.asarray(view[0] if self.bare else view)

    def slots(self, key: str) -> Array:
        """A writable view of a field's slots: ``[lanes, rows, ...]``.

        For values that are known only later, such as advantages. Row ``serial`` of a lane is in slot ``serial % rows``.
        Such writes are not tracked: every later save of this memory writes all rows, and journals, and other processes'
        saves of shared rows, do not have them.
        """
        view = self._store.view(self.schema.columns.index(self.schema[key]), True)
        self._subject.followed = False
        return np.asarray(view[0] if self.bare else view)

    def __contains__(self, key: object) -> bool:
        return any(column.key == key for column in self.schema)

    def __iter__(self) -> Iterator[str]:
        """Names of the fields."""
        return (column.key for column in self.schema)

    def __bool__(self) -> bool:
        """Always true: an empty memory is a memory."""
        return True

    def __repr__(self) -> str:
        used = len(self)
        return (
            f"Memory({used:,} steps in {self.capacity:,} rows, {self.lanes} lane{'s' if self.lanes > 1 else ''}, "
            f"{self.nbytes / 2**20:.1f} MiB, {self.sampler}, {self.window}, {self.schema})"
        )

    # ---- transfer to other memories --------------------------------------------------------------------------------

    @property
    def heads(self) -> Array:
        """The serial that every lane's next row gets, ``[lanes]``."""
        return self._store.heads()[1]

    @property
    def tails(self) -> Array:
        """The serial of every lane's oldest row that is held, ``[lanes]``: as many were overwritten or forgotten."""
        return self._store.heads()[0]

    @property
    def standing(self) -> tuple[float, float]:
        """The total and the smallest sampling weight: over all rows that can be drawn, priorities raised to alpha, or 1
        each with a uniform sampler.
        """
        return self._reader.standing()

    def pack_rows(self, runs: ArrayLike, serials: ArrayLike | None = None) -> bytes:
        """Rows as bytes, closing rows included, for ``receive_rows`` of another memory of the same schema.

        Args:
            runs: Lane, first serial and count of rows held, ``[n, 3]``. Nothing may overwrite them meanwhile.
            serials: Lane, first serial and count of each run at the receiver; None: as here.
        """
        table = np.asarray(runs, np.int64).reshape(-1, 3)
        tails, heads = self._store.heads()
        for lane, first, count in table.tolist():
            lane = checks.whole("lane", lane, 0, self.lanes - 1)
            if not (count >= 1 and tails[lane] <= first and first + count <= heads[lane]):
                raise refusals.stale(0, lane, first, tails, heads)
        return pack(self._store, self.schema, table, table if serials is None else serials)  # type: ignore[arg-type]

    def receive_rows(self, rows: bytes) -> int:
        """Append packed rows; returns how many steps were new. Receiving is idempotent: known rows are skipped.

        A run must begin at its lane's head or before it.

        Raises:
            OptionError: If they do not fit. Runs before the first that does not are stored.
        """
        self._ground.write_to(None)
        steps = 0
        for run in unpack(self.schema, self.lanes, self._span, rows):
            head = int(self._store.heads()[1][run.lane])
            fresh = run.after(head)
            if not len(fresh.flags):
                continue
            if not self._store.receive(fresh.lane, fresh.serial, fresh.flags, fresh.arrays):
                got = f"{len(fresh.flags)} rows from serial {fresh.serial} on"
                raise OptionError("rows", f"form episodes that go on at serial {head} of lane {run.lane}", got)
            steps += fresh.steps
        return steps

    # ---- persistence -----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Put the rows of ``Mapped`` storage on disk; returns once they are there."""
        self._ground.flush()

    def save(self, folder: str | os.PathLike[str], *, compress: str | None = None, journal: str | None = None) -> None:
        """Save everything to a folder, in place of what was saved there before; see docs/format.md.

        Once this returns the snapshot survives any crash, and until then the previous one does. Saving to the same
        folder again is incremental. It may run in a background thread: what is saved is the memory at one instant.
        Steps that would overwrite rows not saved yet wait, and so does ``cut``; actors of shared memory do not wait,
        and the rows they overwrite meanwhile are missing.

        Args:
            compress: ``"zstd"`` compresses segments by Zstandard, which pays for images.
            journal: A write-ahead log of steps appended until the next save, which ``load`` replays. ``"written"``
                survives a crash of the program, ``"synced"`` one of the machine, at a price.
        """
        save(self._subject, checks.path("folder", folder), SystemDisk(), codec_of(compress), journal)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        sampler: Sampler | None = None,
        window: Window | None = None,
        stack: Mapping[str, int] | None = None,
        storage: Storage | None = None,
        threads: int = 1,
        salvage: bool = False,
    ) -> Memory:
        """The memory that was saved to a folder: its next batches are those that the saved one would have drawn.

        Open episodes stay open; call ``cut`` if their environments were reset. A journal is replayed but not continued:
        call ``save`` with one again.

        Args:
            sampler: Another sampler than the saved one; priorities stay if it keeps them in the same way.
            window: Another window; resets priorities.
            stack: Other frame counts; resets priorities.
            storage: Where rows live; it must be new.
            salvage: Replay a damaged journal up to the damage.

        Raises:
            SnapshotError: If a file is missing, damaged, foreign or of a newer version; the message says which.
        """
        with opened(folder, sampler, window, stack) as snapshot:
            memory = cls(**snapshot.options, storage=storage, threads=threads)
            memory._ground.write_to(None)
            snapshot.fill(memory._subject, salvage=salvage)
            memory._ground.leave_lanes()
        return memory

    def export(self, path: str | os.PathLike[str], *, kind: str | None = None) -> int:
        """Write all complete episodes to a dataset; returns how many (docs/datasets.md).

        Args:
            kind: ``"minari"``, ``"d4rl"`` or ``"npz"``. By default the path decides: ``.npz``, ``.hdf5`` for D4RL, or a
                folder for Minari.
        """
        episodes = read_episodes(self._store, self._ground.layout, self.episodes)
        return write_dataset(checks.path("path", path), kind, self.schema, episodes)

    @classmethod
    def from_dataset(
        cls,
        path: str | os.PathLike[str],
        *,
        kind: str | None = None,
        infos: Iterable[str] = (),
        float64: bool = False,
        **options: Any,
    ) -> Memory:
        """A memory filled with a dataset's episodes (docs/datasets.md).

        Args:
            kind: As of ``export``; by default it is detected.
            infos: Infos to keep as fields.
            float64: Whether to keep float64, rather than convert it to float32.
            options: ``sampler``, ``window``, ``stack``, ``storage``, ``seed`` and ``threads``, as of a new memory.
        """
        schema, episodes, rows = read_dataset(checks.path("path", path), kind, tuple(infos), float64=float64)
        window, stack = options.get("window") or Transition(), options.get("stack") or {}
        memory = cls(schema, max(rows, rows_read(window.spec(), max(stack.values(), default=1))), **options)
        for episode in episodes:
            write_episode(memory, episode)
        return memory

    @classmethod
    def open(cls, storage: Storage, **options: Any) -> Memory:
        """The memory in existing ``Mapped`` or ``Shared`` storage.

        Open episodes stay open; call ``cut`` if their environments were reset. In shared memory a lane's new writer
        cuts it.

        Args:
            options: ``sampler``, ``window``, ``stack``, ``max_episodes``, ``seed`` and ``threads``, as of a new memory.
        """
        check_parts(storage=storage)
        layout = storage.layout()
        lanes = None if layout.bare else layout.lanes
        return cls(layout.schema, layout.lanes * layout.span, lanes, storage=Existing(storage), **options)

    def close(self) -> None:
        """Release ``Mapped`` or ``Shared`` storage now rather than at garbage collection."""
        if self._ground.close():
            self._store = self._reader = self._subject.reader = Closed()  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold all rows, as a snapshot does, and are restored in RAM."""
        if self._ground.guarded:
            raise OptionError("storage", "be Ram for a memory to be copied or pickled", "another", "Use save and load.")
        return _copied, (packed(self.save), self.sampler, self.window, self._threads)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _write(self, step: dict[str, Any], lanes: Any, *, block: bool) -> None:
        if self._ground.guarded:
            self._ground.write_to(lanes)
        # Most calls append a well-formed step of all lanes; one more function call would cost a tenth of it.
        if lanes is None and not self.schema.branches and self._store.append(step, None, block):
            return
        write(self._store, self.schema, step, lanes, count=self.lanes, bare=self.bare, block=block)

    def _beta(self, beta: float | None) -> float:
        if beta is not None:
            return check_beta(beta)
        if isinstance(self.sampler, Prioritized):
            chosen = self.sampler.beta
            return check_beta(chosen(self._reader.counts()[3])) if callable(chosen) else chosen
        return 0.0


def _copied(files: dict[str, Any], sampler: Sampler, window: Window, threads: int) -> Memory:
    with unpacked(files) as folder:
        return Memory.load(folder, sampler=sampler, window=window, threads=threads)
