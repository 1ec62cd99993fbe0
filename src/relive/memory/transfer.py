"""Rows and batches of a memory as bytes, on their way to another process."""

from __future__ import annotations

from typing import final

import numpy as np

from relive import _core
from relive.errors import OptionError
from relive.memory import checks, refusals
from relive.memory.hindsight import Relabelling
from relive.memory.packing import pack, unpack
from relive.memory.samplers import Sampler, beta_of
from relive.memory.storage.ground import Ground
from relive.memory.windows import Window
from relive.types import ArrayLike

__all__ = ["Transfer"]


@final
class Transfer:
    """Rows and batches as bytes; see ``Memory.transfer``.

    >>> import relive as rl
    >>> here, there = (rl.Memory(rl.Schema(obs=rl.Field()), capacity=10, seed=0) for _ in range(2))
    >>> here.append(obs=1.5, reward=0.0, terminated=True, truncated=False)
    >>> packed = here.transfer.pack_rows([(0, 0, 2)])  # lane 0, from serial 0: a step and its closing row
    >>> there.transfer.receive_rows(packed), there["obs"].tolist()
    (1, [1.5, 1.5])
    """

    def __init__(
        self,
        ground: Ground,
        store: _core.Store,
        reader: _core.Reader,
        sampler: Sampler,
        window: Window,
        threads: int,
    ) -> None:
        self._ground, self._store, self._reader = ground, store, reader
        self._sampler, self._threads = sampler, threads
        self._relabels = isinstance(window, Relabelling)

    @property
    def serialises(self) -> bool:
        """Whether ``sample_bytes`` serves this window and sampler: all batches of a size have the same shapes, and are
        not relabelled.
        """
        return not self._relabels and self._reader.room(1) > 0

    @property
    def sampling_weight(self) -> tuple[float, float]:
        """The total and the smallest sampling weight of the rows that can be drawn: priorities raised to alpha, or 1
        each with a uniform sampler.
        """
        return self._reader.standing()

    def sample_bytes(
        self, size: int, count: int, *, head: bytes = b"", first_lane: int = 0, beta: float | None = None
    ) -> bytes:
        """Draw ``count`` independent batches, serialised to bytes without a copy.

        A batch is its arrays in the order of ``Memory.sample``, each padded with zeros to a multiple of 64 bytes.

        Args:
            head: What the bytes begin with: a multiple of 16 of them.
            first_lane: Added to the numbers of lanes.
            beta: As of ``Memory.sample``.

        Raises:
            OptionError: If ``serialises`` is False: with ``Episodes``, ``Hindsight``, or by ``Shuffled``.
            NotEnoughRows: As of ``Memory.sample``. Batches that had been drawn are lost.
        """
        size, count = checks.whole("size", size, 1, 2**31 - 1), checks.whole("count", count, 1, 2**31 - 1)
        if not self.serialises:
            raise OptionError("window", "give batches that are all alike", "Episodes, Hindsight, or Shuffled")
        if len(head) % 16:
            raise OptionError("head", "be a multiple of 16 bytes", len(head))
        drawn = self._reader.sample_bytes(
            head, count, size, beta_of(self._sampler, beta, self._reader), self._threads, first_lane
        )
        if not isinstance(drawn, bytes):
            raise refusals.not_enough(size, drawn, self._store.steps(), self._ground.layout.span)
        return drawn

    def pack_rows(self, runs: ArrayLike, serials: ArrayLike | None = None) -> bytes:
        """Rows as bytes, closing rows included, for ``receive_rows`` of another memory of the same schema.

        Args:
            runs: Lane, first serial and count of rows held, ``[n, 3]``. Nothing may overwrite them meanwhile.
            serials: Lane, first serial and count of each run at the receiver; None: as here.
        """
        layout, table = self._ground.layout, np.asarray(runs, np.int64).reshape(-1, 3)
        tails, heads = self._store.heads()
        for lane, first, count in table.tolist():
            lane = checks.whole("lane", lane, 0, layout.lanes - 1)
            if not (count >= 1 and tails[lane] <= first and first + count <= heads[lane]):
                raise refusals.stale(0, lane, first, tails, heads)
        return pack(self._store, layout.schema, table, table if serials is None else serials)  # type: ignore[arg-type]

    def receive_rows(self, rows: bytes) -> int:
        """Append packed rows; returns how many steps were new. Receiving is idempotent: known rows are skipped.

        A run must begin at its lane's head or before it.

        Raises:
            OptionError: If they do not fit. Runs before the first that does not are stored.
        """
        self._ground.write_to(None)
        steps, layout = 0, self._ground.layout
        for run in unpack(layout.schema, layout.lanes, layout.span, rows):
            head = int(self._store.heads()[1][run.lane])
            fresh = run.after(head)
            if not len(fresh.flags):
                continue
            if not self._store.receive(fresh.lane, fresh.serial, fresh.flags, fresh.arrays):
                got = f"{len(fresh.flags)} rows from serial {fresh.serial} on"
                raise OptionError("rows", f"form episodes that go on at serial {head} of lane {run.lane}", got)
            steps += fresh.steps
        return steps
