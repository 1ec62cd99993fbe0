"""Loading snapshots: every byte is checked before it is used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np

from relive import _core
from relive.errors import OptionError, SnapshotError
from relive.memory.checks import path as path_of
from relive.memory.samplers import Sampler
from relive.memory.snapshot.compression import expand
from relive.memory.snapshot.disk import locked, open_file
from relive.memory.snapshot.journal import replay
from relive.memory.snapshot.manifest import MANIFEST, FileNote, Segment, digest, read_manifest
from relive.memory.snapshot.parts import STATE_HEADER, sampler_from_plain, spec_of, state_tensors, window_from_plain
from relive.memory.snapshot.saving import SEGMENT_ROWS, Subject
from relive.memory.snapshot.tensors import FormatError, Tensor, read_tensors
from relive.memory.storage import Layout
from relive.memory.windows import Window
from relive.types import Array

__all__ = ["Opened", "opened"]


_DAMAGED = "It is damaged: restore it from a copy."
_MOST_SERIAL = 1 << 59  # half of what the core counts to, so that a memory that was loaded can go on and be saved


@final
class Opened:
    """A snapshot that is being loaded."""

    def __init__(
        self, folder: Path, sampler: Sampler | None, window: Window | None, stack: Mapping[str, int] | None
    ) -> None:
        self._folder = folder
        self._manifest = read_manifest(folder)
        try:
            saved = sampler_from_plain(self._manifest.sampler), window_from_plain(self._manifest.window)
        except ValueError as error:
            raise SnapshotError(str(folder / MANIFEST), "describe a sampler and a window", error, _DAMAGED) from None
        self._sampler = sampler or saved[0]
        self._window = window or saved[1]
        self._stack = self._manifest.stack if stack is None else dict(stack)
        for name, part in (("sampler", self._sampler), ("window", self._window)):
            if part is None:
                raise OptionError(name, "be given", "one that a file cannot hold", "Pass it to load.")
        self._same = (
            self._stack == self._manifest.stack
            and spec_of(self._sampler) == self._manifest.sampler.get("spec")
            and spec_of(self._window) == self._manifest.window.get("spec")
        )
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Refuse a manifest that claims more memory than its files hold."""
        manifest = self._manifest
        for number, lane in enumerate(manifest.lanes):
            if lane.head > _MOST_SERIAL:
                name = str(self._folder / MANIFEST)
                raise SnapshotError(
                    name, f"have serials up to {_MOST_SERIAL}", f"{lane.head} in lane {number}", _DAMAGED
                )
        for note in [*(segment.note for segment in manifest.segments), *([manifest.state] if manifest.state else [])]:
            os.close(_open_whole(self._folder / note.file, note))
        for segment in manifest.segments:
            if segment.rows > 4 * SEGMENT_ROWS:
                path = self._folder / segment.note.file
                raise SnapshotError(str(path), f"hold at most {4 * SEGMENT_ROWS} rows", segment.rows, _DAMAGED)
        if self._same and self._sampler is not None and self._sampler.spec()[0] == "prioritized":
            expected = STATE_HEADER + 8 * manifest.layout.lanes * manifest.layout.span
            found = manifest.state.bytes if manifest.state else 0
            if found != expected:
                raise SnapshotError(str(self._folder), f"hold {expected} bytes of priorities", found, _DAMAGED)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of a memory like the one that was saved."""
        layout = self._manifest.layout
        return {
            "schema": layout.schema,
            "capacity": layout.lanes * layout.span,
            "lanes": None if layout.bare else layout.lanes,
            "sampler": self._sampler,
            "window": self._window,
            "stack": self._stack,
            "max_episodes": self._manifest.max_episodes,
        }

    def fill(self, subject: Subject, *, salvage: bool) -> None:
        """Fill an empty memory with the saved rows and state."""
        manifest = self._manifest
        # One buffer for all: fresh pages, and those of mapped files, cost more than the reading.
        buffer = np.empty(max((segment.note.bytes for segment in manifest.segments), default=0), np.uint8)
        for segment in manifest.segments:
            _load_segment(self._folder, segment, manifest.layout, subject.store, buffer)
        self._adopt(subject.store)
        if self._same:
            self._restore(subject.reader, subject.sampler)
        subject.reader.seek(*manifest.key, manifest.position, manifest.batches, manifest.dropped)
        subject.heads[manifest.id] = np.array([lane.head for lane in manifest.lanes], np.int64)
        if manifest.journal is not None:
            replay(self._folder, manifest.journal, manifest.layout, subject.store, salvage=salvage)

    def _adopt(self, store: _core.Store) -> None:
        flags, span = store.flags(), self._manifest.layout.span
        for number, lane in enumerate(self._manifest.lanes):
            start = lane.start
            if start is None:
                # Rows before the tail were lost while saving: the oldest row's episode may have begun before it.
                first = lane.tail < lane.head and flags[number, lane.tail % span] & 8
                start = lane.tail if first or lane.tail == 0 else lane.tail - 1
            if not store.adopt(number, lane.tail, lane.head, start, lane.gone):
                rule = f"hold whole episodes in lane {number}"
                raise SnapshotError(str(self._folder), rule, "flags that form none", _DAMAGED)

    def _restore(self, reader: _core.Reader, sampler: Sampler) -> None:
        note = self._manifest.state
        state: Array = np.empty(0, np.uint8)
        if note is not None:
            data = _read(self._folder, note, np.empty(note.bytes, np.uint8))
            expected = state_tensors(sampler, self._manifest.layout, max(0, len(data) - STATE_HEADER))
            state = _tensors(str(self._folder / note.file), data, expected).popitem()[1].reshape(-1).view(np.uint8)
        if not reader.restore(state, self._manifest.largest):
            name = str(self._folder / (note.file if note else MANIFEST))
            raise SnapshotError(name, "hold what the sampler kept for these rows", "something else", _DAMAGED)


@contextmanager
def opened(
    folder: str | os.PathLike[str], sampler: Sampler | None, window: Window | None, stack: Mapping[str, int] | None
) -> Iterator[Opened]:
    """The snapshot in a folder, locked against replacement while it is read."""
    path = path_of("folder", folder)
    if not path.is_dir():
        raise OptionError("folder", "be a snapshot's folder", str(path))
    with locked(path, writing=False):
        yield Opened(path, sampler, window, stack)


def _load_segment(folder: Path, segment: Segment, layout: Layout, store: _core.Store, buffer: Array) -> None:
    name = str(folder / segment.note.file)
    expected: dict[str, Tensor] = {"flags": (np.dtype(np.uint8), (segment.rows,))}
    for column in layout.schema:
        expected[f"field/{column.key}"] = (column.dtype, (segment.rows, *column.shape))
    data = _read(folder, segment.note, buffer)
    if segment.note.file.endswith(".zst"):
        total = segment.rows * (layout.schema.row_nbytes + 1) + (16 << 20)
        try:
            data = expand(data, total)
        except (FormatError, MemoryError) as error:
            raise SnapshotError(name, "be a compressed segment", error, _DAMAGED) from None
    arrays = _tensors(name, data, expected)
    columns = [arrays[f"field/{column.key}"] for column in layout.schema]
    for run in segment.runs:
        part = slice(run.at, run.at + run.count)
        if run.count > layout.span:
            raise SnapshotError(name, f"hold runs of at most {layout.span} rows", run.count, _DAMAGED)
        store.put(run.lane, run.first, arrays["flags"][part], [column[part] for column in columns], False)


def _tensors(name: str, data: Array, expected: dict[str, Tensor]) -> dict[str, Array]:
    try:
        return read_tensors(data, expected)
    except FormatError as error:
        raise SnapshotError(name, error.rule, error.got, _DAMAGED) from None


def _read(folder: Path, note: FileNote, buffer: Array) -> Array:
    """The bytes of a file, with its checksum verified."""
    path = folder / note.file
    file = _open_whole(path, note)
    try:
        filled = 0
        while filled < note.bytes and (count := os.readv(file, [buffer[filled : note.bytes].data])):
            filled += count
    except OSError as error:
        raise SnapshotError(str(path), "be a file that can be read", error.strerror or error) from None
    finally:
        os.close(file)
    data = buffer[:filled]
    found = digest(data)
    if found != note.xxh64:
        raise SnapshotError(str(path), f"have the XXH64 {note.xxh64}", found, _DAMAGED)
    return data


def _open_whole(path: Path, note: FileNote) -> int:
    file = open_file(path)
    size = os.fstat(file).st_size
    if size != note.bytes:
        os.close(file)
        raise SnapshotError(str(path), f"be {note.bytes} bytes long", size, _DAMAGED)
    return file
