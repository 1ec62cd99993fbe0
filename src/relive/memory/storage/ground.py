"""Protocols of storage, and the layout of rows in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

from relive import _core
from relive.errors import OptionError, StorageError
from relive.memory.layout import place
from relive.schema import Schema
from relive.schema.describe import from_plain, to_plain

__all__ = ["Ground", "Layout", "Storage", "watch_files"]

_MOST_LANES = 1 << 31
_MOST_ROWS = 1 << 46


@final
@dataclass(frozen=True)
class Layout:
    """The layout of a memory's rows in storage: their number, lanes and fields."""

    schema: Schema
    lanes: int
    span: int
    bare: bool

    def map_store(self, file: int, path: Path, offset: int, *, others: bool) -> _core.Store:
        """The rows in a file. It is opened once more: a mapping keeps the locks of the file it was made from."""
        again = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_NOFOLLOW if others else 0))
        try:
            if not os.path.samestat(os.fstat(again), os.fstat(file)):
                raise StorageError(str(path), "stay where it is while it is opened", "another file in its place")
            return self.open_store(again, offset, others=others)
        finally:
            os.close(again)

    def open_store(self, file: int = -1, offset: int = 0, *, others: bool = False) -> _core.Store:
        """The rows, in RAM or in an open file."""
        pitches, places = place(self.schema)
        columns = [
            (column.key, column.final_key, column.dtype.num, column.shape, panel, at)
            for column, (panel, at) in zip(self.schema.columns, places, strict=True)
        ]
        try:
            return _core.Store(
                self.lanes, self.span, self.bare, self.schema.loose, pitches, columns, file, offset, others
            )
        except MemoryError:
            rows = self.lanes * self.span
            total = rows * sum(pitches)
            raise OptionError(
                "capacity", "fit in memory", f"{rows} rows of {sum(pitches)} bytes, {total / 2**30:.1f} GiB"
            ) from None

    @property
    def nbytes(self) -> int:
        """Bytes that a file needs for the rows."""
        pitches, _ = place(self.schema)
        return _core.Store.bytes_for(self.lanes, self.span, pitches)

    def plain(self) -> dict[str, Any]:
        """As plain data, for a file's header."""
        return {"schema": to_plain(self.schema), "lanes": self.lanes, "span": self.span, "bare": self.bare}

    @classmethod
    def from_plain(cls, data: Any) -> Layout:
        """The layout that was described.

        Raises:
            ValueError: If the data describe none.
        """
        if not isinstance(data, dict) or not {"schema", "lanes", "span", "bare"} <= set(data):
            raise ValueError("no layout")
        lanes, span, bare = data["lanes"], data["span"], data["bare"]
        if (
            type(lanes) is not int
            or type(span) is not int
            or type(bare) is not bool
            or not 1 <= lanes <= _MOST_LANES
            or not 2 <= span <= _MOST_ROWS
            or (bare and lanes > 1)
        ):
            raise ValueError("no layout")
        layout = cls(from_plain(data["schema"]), lanes, span, bare)
        _ = layout.nbytes  # raises ValueError if no memory could have them
        return layout

    def differences(self, other: Layout) -> str:
        """How another layout differs, in words."""
        parts = [
            f"{name} {theirs} instead of {ours}"
            for name, ours, theirs in (
                ("schema", self.schema, other.schema),
                ("lanes", None if self.bare else self.lanes, None if other.bare else other.lanes),
                ("rows of a lane", self.span, other.span),
            )
            if ours != theirs
        ]
        return ", ".join(parts)


class Ground(Protocol):
    """Rows that have been opened, and what keeps them open."""

    store: _core.Store
    layout: Layout
    others: bool
    """Whether other processes write too."""
    guarded: bool
    """Whether ``write_to`` has to be asked before writing."""

    def write_to(self, lanes: Any) -> None:
        """Make sure that this process may write to lanes; None means all."""
        ...

    def check_attached(self) -> None:
        """Refuse to change rows for a process that did not open them."""
        ...

    def leave_lanes(self) -> None:
        """Let others write to the lanes that this process wrote to."""
        ...

    def flush(self) -> None:
        """Put all rows on disk, if that is where they live."""
        ...

    def close(self) -> bool:
        """Release the rows; True if they were held."""
        ...


@runtime_checkable
class Storage(Protocol):
    """A place for rows."""

    def open(self, layout: Layout | None) -> Ground:
        """New rows of this layout; None: the existing ones."""
        ...

    def layout(self) -> Layout:
        """The layout of the existing rows."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Existing:
    """Storage whose existing rows are opened."""

    storage: Storage

    def open(self, layout: Layout | None) -> Ground:
        """The existing rows, if they have this layout."""
        ground = self.storage.open(None)
        if layout is not None and ground.layout != layout:
            ground.close()
            raise StorageError(
                "storage", "stay as it is while it is opened", ground.layout.differences(layout), "Open it again."
            )
        return ground

    def layout(self) -> Layout:
        """The layout of the existing rows."""
        return self.storage.layout()


@final
class Closed:
    """Stands in for the rows of a memory that was closed."""

    def __getattr__(self, name: str) -> Any:
        raise was_closed()


def was_closed() -> StorageError:
    """The error of a closed memory."""
    return StorageError("memory", "be open", "one that was closed", "Open its storage again.")


def was_forked() -> StorageError:
    """The error of a memory used in a child of the process that opened it."""
    return StorageError(
        "memory", "be opened in the process that writes", "one from before a fork", "Open it there again."
    )


def watch_files() -> None:
    """Detect files that are truncated while mapped, even if other code has replaced the SIGBUS handler."""
    _core.watch_files()
