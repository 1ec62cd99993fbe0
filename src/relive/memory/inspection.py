"""Statistics and raw rows of a memory, for monitoring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from relive import _core
from relive.memory import checks
from relive.memory.batch import Batch, Nest, nested
from relive.memory.snapshot import Subject
from relive.schema import Schema
from relive.types import Array

__all__ = ["Inspection", "episode_table", "field_view"]

_CLOSING = 4  # core/memory/rows.hpp


@final
class Inspection:
    """The state of a memory in numbers; see ``Memory.inspect``.

    >>> import relive as rl
    >>> memory = rl.Memory(rl.Schema(obs=rl.Field()), capacity=10, seed=0)
    >>> for t in range(4):
    ...     memory.append(obs=t, reward=0.0, terminated=False, truncated=False)
    >>> memory.inspect.heads.tolist(), memory.inspect.newest(2).obs.tolist()
    ([4], [3.0, 2.0])
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def heads(self) -> Array:
        """The serial that every lane's next row gets, ``[lanes]``."""
        return self._subject.store.heads()[1]

    @property
    def tails(self) -> Array:
        """The serial of every lane's oldest row that is held, ``[lanes]``: as many were overwritten or forgotten."""
        return self._subject.store.heads()[0]

    @property
    def overwrites(self) -> bool:
        """Whether every new row overwrites an old one."""
        return self._subject.store.full()

    @property
    def used_nbytes(self) -> int:
        """Bytes of the rows held now, closing rows included."""
        tails, heads = self._subject.store.heads()
        layout = self._subject.layout
        nbytes = self._subject.store.nbytes() + self._subject.reader.nbytes()
        return int(nbytes * (int((heads - tails).sum()) / (layout.lanes * layout.span)))

    def newest(self, size: int) -> Batch:
        """The newest ``size`` steps of all lanes as they are stored, without a window, or as many as there are."""
        size = checks.whole("size", size, 1, 2**31 - 1)
        store, schema = self._subject.store, self._subject.layout.schema
        tails, heads = store.heads()
        flags = store.flags()
        lanes, span = flags.shape
        depth = min(-(-size // lanes) * 2 + 1, span)  # an episode of one step has a closing row
        while True:
            age = np.arange(depth)[:, None]
            serials = heads - 1 - age
            held = serials >= np.maximum(tails, heads - span)
            held &= (flags[np.arange(lanes), serials % span] & _CLOSING) == 0
            when, lane = np.nonzero(held)  # the newest of every lane first
            if len(when) >= size or depth == span:
                break
            depth = min(2 * depth, span)
        when, lane = when[:size], lane[:size]
        slots = serials[when, lane] % span
        rows: dict[str, Any] = {
            column.key: store.view(index, False)[lane, slots] for index, column in enumerate(schema)
        }
        return nested({**rows, "lanes": lane, "serials": serials[when, lane]}, schema.action_keys)

    def count_draws(self, on: bool = True) -> bool:
        """Count from now on how often each row is drawn, for ``census``; 8 bytes a row. False: no longer.

        Returns whether draws were counted before.
        """
        return self._subject.reader.count_draws(checks.flag("on", on))

    def draw_counts(self, rows: Mapping[str, Any]) -> Array | None:
        """How often each of some rows (``lanes`` and ``serials``, as in a batch) was drawn since ``count_draws``,
        ``[B]``; 0 for rows no longer held. None unless draws are counted.
        """
        return self._subject.reader.draw_counts(*checks.row_names(rows))

    def census(self, most: int = 1_000_000) -> Nest:
        """Histograms of the rows: over ``rows`` of them, every ``stride``-th so that they are at most ``most``.

        ``ages``: rows from the newest to as old as a row can be. ``drawn_ages``: draws of these, and ``draws_each``:
        rows by their draws (none, 1, 2 to 3, 4 to 7 and so on), both None unless draws are counted. ``priorities``:
        rows by the power of two below their priority, from 2^-32 on, with ``total``, ``least``, ``most`` and
        ``effective``, the effective sample size (sum p)^2 / sum p^2. None unless the sampler has priorities.
        """
        most = checks.whole("most", most, 1, 2**62)
        tails, heads = self._subject.store.heads()
        stride = max(1, -(-int((heads - tails).sum()) // most))
        found = self._subject.reader.census(stride)
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


def episode_table(store: _core.Store) -> Nest:
    """Episodes with steps in memory, as arrays (``Memory.episodes``)."""
    lane, number, start, end, flags = store.episodes()
    tails, _ = store.heads()
    return Nest(
        lane=lane,
        id=number,
        start=start,
        length=end - start,
        terminated=(flags & 1) != 0,
        truncated=(flags & 2) != 0,
        whole=start >= tails[lane],
    )


def field_view(store: _core.Store, schema: Schema, key: str) -> Array:
    """A read-only view of a field's slots ``[lanes, rows, ...]``; ``terminated`` and ``truncated`` come as copies."""
    tails, heads = store.heads()
    flags = store.flags()
    rows = int(min(flags.shape[1], heads.max())) if (heads > tails).any() else 0
    if key not in ("terminated", "truncated"):
        return np.asarray(store.view(schema.columns.index(schema[key]), False)[:, :rows])
    copy = (flags[:, :rows] & (1 if key == "terminated" else 2)) != 0
    copy.flags.writeable = False
    return np.asarray(copy)
