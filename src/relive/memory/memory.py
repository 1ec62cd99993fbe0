"""A timeline, read through a window by a sampler."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from relive import _core
from relive.errors import OptionError
from relive.memory import checks, refusals
from relive.memory.batch import Batch, Nest, nested
from relive.memory.copying import packed, unpacked
from relive.memory.datasets import read_dataset, read_episodes, write_dataset, write_episode
from relive.memory.hindsight import Relabelling, relabelled
from relive.memory.inspection import Inspection, episode_table, field_view
from relive.memory.parts import Hint, check_parts, outputs_of
from relive.memory.prefetch import Prefetch
from relive.memory.samplers import Prioritized, Sampler, Shuffled, Uniform, beta_of
from relive.memory.snapshot import Subject, SystemDisk, codec_of, opened, save
from relive.memory.storage import Layout, Ram
from relive.memory.storage.ground import Closed, Existing, Ground, Storage
from relive.memory.transfer import Transfer
from relive.memory.windows import Transition, Window, rows_read
from relive.memory.writing import write
from relive.messages import brief
from relive.schema import Schema
from relive.types import Array, ArrayLike, Lanes, Value

__all__ = ["Memory"]

_set_action_keys = Batch.action_keys.__set__  # type: ignore[attr-defined] # a third of what setattr takes
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
        outputs = outputs_of(self.window, schema, self.stack, span=self._span, lanes=self.lanes)
        key = checks.key(seed)
        self._ground: Ground = (storage or Ram()).open(Layout(schema, self.lanes, self._span, self.bare))
        self._store = self._ground.store
        self._reader = _core.Reader(self._store, outputs, self.window.spec(), self.sampler.spec(), *key)
        self._subject = Subject(self._ground, self._reader, self.sampler, self.window, self.stack, self.max_episodes)
        if self.max_episodes is not None:
            self._store.keep_episodes(self.max_episodes)
        self._action_keys, self._nested = schema.action_keys, any("/" in key for key, *_ in outputs)
        self._relabelling = self.window if isinstance(self.window, Relabelling) else None

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

    def sample(self, size: int, *, beta: float | None = None) -> Batch:
        """Draw ``size`` rows and read each through the window.

        Args:
            beta: Exponent of the weights for this batch, in place of the sampler's.

        Raises:
            NotEnoughRows: If there is nothing to draw, or too little to draw without replacement.
        """
        if type(size) is not int or not 0 < size < 2**31:
            size = checks.whole("size", size, 1, 2**31 - 1)
        if self._relabelling is not None:
            return relabelled(self, self._relabelling, lambda: self._draw(size, beta))
        return self._draw(size, beta)

    def read(self, lanes: ArrayLike, serials: ArrayLike) -> Batch:
        """Read chosen rows through the window, for instance those of an earlier batch.

        Raises:
            StaleRows: If a row was overwritten, is not complete yet, or cannot begin this window.
        """
        where, which = checks.rows(lanes, serials)
        drawn = self._reader.read(where, which, self._threads)
        if not isinstance(drawn, dict):
            raise refusals.stale(drawn, int(where[drawn]), int(which[drawn]), *self._store.heads())
        return nested(drawn, self._action_keys)

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
        return Prefetch(lambda: self.sample(size), ahead)

    def __len__(self) -> int:
        """Steps stored; closing rows do not count."""
        return self._store.steps()

    @property
    def ready(self) -> int:
        """Rows that can be drawn now with this window."""
        return self._reader.ready()

    @property
    def nbytes(self) -> int:
        """Bytes of rows, flags, episode index and priorities. Pages never written to take no RAM yet."""
        return self._store.nbytes() + self._reader.nbytes()

    @property
    def episodes(self) -> Nest:
        """Episodes with steps in memory, as arrays: ``lane``, ``id``, ``start``, ``length``, ``terminated``,
        ``truncated``, ``whole`` (False if the first steps were overwritten). An id counts within its lane.
        """
        return episode_table(self._store)

    @property
    def priorities(self) -> Array:
        """Priorities raised to alpha, ``[lanes, rows of a lane]``; 0 where nothing can be drawn."""
        if not isinstance(self.sampler, Prioritized):
            raise OptionError("sampler", "be Prioritized to have priorities", type(self.sampler).__name__)
        return self._reader.priorities()

    @property
    def inspect(self) -> Inspection:
        """Statistics and raw rows, for monitoring: serials of lanes, the newest rows, histograms."""
        return Inspection(self._subject)

    @property
    def transfer(self) -> Transfer:
        """Rows and batches as bytes, on their way to another process."""
        return Transfer(self._subject, self._threads)

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
        view = field_view(self._store, self.schema, key)
        return view[0] if self.bare else view

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
            window: Another window; priorities stay if it reads the same rows.
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
        check_parts(required="storage", storage=storage)
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

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not isinstance(vars(Memory).get(name), Hint)]

    if not TYPE_CHECKING:  # which would take these for members; __getattr__ would slow all others down
        add = insert = push = put = store = Hint("Memory stores a step with append, and a block of steps with extend")

    def _draw(self, size: int, beta: float | None) -> Batch:
        drawn = self._reader.sample(size, beta_of(self.sampler, beta, self._reader), self._threads)
        if not isinstance(drawn, dict):
            raise refusals.not_enough(size, drawn, len(self), self._span)
        batch = nested(drawn) if self._nested else Batch(drawn)
        _set_action_keys(batch, self._action_keys)
        return batch

    def _write(self, step: dict[str, Any], lanes: Any, *, block: bool) -> None:
        if self._ground.guarded:
            self._ground.write_to(lanes)
        # Most calls append a well-formed step of all lanes; one more function call would cost a tenth of it.
        if lanes is None and not self.schema.branches and self._store.append(step, None, block):
            return
        write(self._store, self.schema, step, lanes, count=self.lanes, bare=self.bare, block=block)


def _copied(files: dict[str, Any], sampler: Sampler, window: Window, threads: int) -> Memory:
    with unpacked(files) as folder:
        return Memory.load(folder, sampler=sampler, window=window, threads=threads)
