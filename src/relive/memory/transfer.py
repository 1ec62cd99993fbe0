"""Rows and batches of a memory as bytes, on their way to another process."""

from __future__ import annotations

from typing import final

import numpy as np

from relive.errors import OptionError
from relive.memory import checks, refusals
from relive.memory.hindsight import Relabelling
from relive.memory.packing import pack, unpack
from relive.memory.samplers import beta_of
from relive.memory.snapshot import Subject
from relive.messages import brief
from relive.types import Array, ArrayLike

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

    def __init__(self, subject: Subject, threads: int) -> None:
        self._subject, self._threads = subject, threads

    @property
    def can_sample_bytes(self) -> bool:
        """Whether ``sample_bytes`` serves this window and sampler: all batches of a size have the same shapes, and are
        not relabelled.
        """
        return not isinstance(self._subject.window, Relabelling) and self._subject.reader.room(1) > 0

    @property
    def sampling_weight(self) -> tuple[float, float]:
        """The total and the smallest sampling weight of the rows that can be drawn: priorities raised to alpha, or 1
        each with a uniform sampler.
        """
        return self._subject.reader.standing()

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
            OptionError: If ``can_sample_bytes`` is False: with ``Episodes``, ``Hindsight``, or by ``Shuffled``.
            NotEnoughRows: As of ``Memory.sample``. Batches that had been drawn are lost.
        """
        size, count = checks.whole("size", size, 1, 2**31 - 1), checks.whole("count", count, 1, 2**31 - 1)
        first_lane = checks.whole("first_lane", first_lane, 0, 2**62)
        if not self.can_sample_bytes:
            raise OptionError(
                "window", "give batches that are all alike", f"{self._subject.window} by {self._subject.sampler}"
            )
        if not isinstance(head, bytes) or len(head) % 16:
            raise OptionError("head", "be a multiple of 16 bytes", brief(head))
        drawn = self._subject.reader.sample_bytes(
            head, count, size, beta_of(self._subject.sampler, beta, self._subject.reader), self._threads, first_lane
        )
        if not isinstance(drawn, bytes):
            raise refusals.not_enough(size, drawn, self._subject.store.steps(), self._subject.layout.span)
        return drawn

    def pack_rows(self, runs: ArrayLike, serials: ArrayLike | None = None) -> bytes:
        """Rows as bytes, closing rows included, for ``receive_rows`` of another memory of the same schema.

        Args:
            runs: Lane, first serial and count of rows held, ``[n, 3]``. Nothing may overwrite them meanwhile.
            serials: Lane, first serial and count of each run at the receiver; None: as here.
        """
        layout, table = self._subject.layout, _runs("runs", runs)
        named = table if serials is None else _runs("serials", serials)
        if len(named) != len(table):
            raise OptionError("serials", f"name each of the {len(table)} runs", len(named))
        tails, heads = self._subject.store.heads()
        for lane, first, count in table.tolist():
            lane = checks.whole("lane", lane, 0, layout.lanes - 1)
            if not (count >= 1 and tails[lane] <= first and first + count <= heads[lane]):
                raise refusals.stale(0, lane, first, tails, heads)
        return pack(self._subject.store, layout.schema, table, named)  # type: ignore[arg-type]

    def receive_rows(self, rows: bytes) -> int:
        """Append packed rows; returns how many steps were new. Receiving is idempotent: known rows are skipped.

        A run must begin at its lane's head or before it.

        Raises:
            OptionError: If they do not fit. Runs before the first that does not are stored.
        """
        self._subject.ground.write_to(None)
        steps, layout = 0, self._subject.layout
        for run in unpack(layout.schema, layout.lanes, layout.span, rows):
            head = int(self._subject.store.heads()[1][run.lane])
            fresh = run.after(head)
            if not len(fresh.flags):
                continue
            if not self._subject.store.receive(fresh.lane, fresh.serial, fresh.flags, fresh.arrays):
                got = f"{len(fresh.flags)} rows from serial {fresh.serial} on"
                raise OptionError("rows", f"form episodes that go on at serial {head} of lane {run.lane}", got)
            steps += fresh.steps
        return steps


def _runs(name: str, runs: ArrayLike) -> Array:
    """Lane, first serial and count of runs, ``[n, 3]``."""
    array = checks.host(name, runs)
    if array.size == 0:
        return np.zeros((0, 3), np.int64)
    if array.dtype.kind not in "iu" or array.ndim > 2 or array.shape[-1:] != (3,):
        raise OptionError(name, "be whole numbers [n, 3]", f"{array.dtype}{list(array.shape)}")
    return array.astype(np.int64).reshape(-1, 3)
