"""Incremental snapshots: write new rows, then the manifest, and only then remove old files."""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np

from relive import _core
from relive.errors import OptionError, SnapshotError
from relive.memory.samplers import Sampler
from relive.memory.snapshot.compression import Codec
from relive.memory.snapshot.disk import Disk, locked
from relive.memory.snapshot.journal import begin_journal
from relive.memory.snapshot.manifest import (
    MANIFEST,
    NAMES,
    FileNote,
    LaneNote,
    Manifest,
    NewerSnapshot,
    Run,
    Segment,
    read_manifest,
)
from relive.memory.snapshot.parts import STATE_HEADER, state_tensors, to_plain
from relive.memory.snapshot.plan import first_missing, kept_segments, missing_runs, segments_of, trimmed
from relive.memory.snapshot.tensors import Tensor, encode_header
from relive.memory.storage import Ground, Layout
from relive.memory.storage.forks import tell_of_forks
from relive.memory.windows import Window
from relive.types import Array

__all__ = ["Subject", "save"]


SEGMENT_ROWS = 16_384
_SEGMENT_BYTES = 64 << 20
_PIECE_BYTES = 8 << 20
_ON_THE_WAY = 64  # segments that are written but not synced yet: the first sync then serves them all


@final
@dataclass(eq=False)
class Subject:
    """The parts of a memory that a snapshot is taken of."""

    ground: Ground
    reader: _core.Reader
    sampler: Sampler
    window: Window
    stack: dict[str, int]
    max_episodes: int | None = None
    heads: dict[str, Array] = field(default_factory=dict)
    """The lanes' heads at the snapshots that were made of this memory, or that it came from, by their ids."""
    followed: bool = True
    """Whether every change of rows was tracked; else rows saved before may have changed."""
    journal: tuple[Path, str] | None = None
    """Folder and name of the open journal."""
    saving: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        tell_of_forks(self)

    def forked(self) -> None:
        """Leave the parent's journal to the parent; the core does the same with rows that are held."""
        self.journal = None
        self.saving = threading.Lock()

    @property
    def store(self) -> _core.Store:
        """The rows."""
        return self.ground.store

    @property
    def layout(self) -> Layout:
        """How the rows lie."""
        return self.ground.layout


def save(subject: Subject, folder: Path, disk: Disk, codec: Codec, journal: str | None = None) -> None:
    """Save a memory to a folder; once this returns, the snapshot survives any crash.

    Args:
        journal: ``"written"`` or ``"synced"``: log what is appended from then on.

    Raises:
        OSError: If the disk fails. What the folder held before can still be loaded.
    """
    if journal not in (None, "written", "synced"):
        raise OptionError("journal", "be None, 'written' or 'synced'", repr(journal))
    if journal is not None and subject.ground.others:
        raise OptionError("journal", "be None for shared memory", repr(journal), "Other processes' rows pass it by.")
    _make_folder(folder, disk)
    with subject.saving, locked(folder, writing=True):
        previous = _previous(folder)
        work = _Save(subject, folder, disk, codec, journal)
        try:
            manifest = work.run(previous)
        finally:
            subject.store.release(None)
            work.abandon()
        _remove_obsolete(folder, disk, manifest)
    subject.heads[manifest.id] = np.array([lane.head for lane in manifest.lanes], np.int64)
    while len(subject.heads) > 8:
        subject.heads.pop(next(iter(subject.heads)))


def _make_folder(folder: Path, disk: Disk) -> None:
    if folder.exists() and not folder.is_dir():
        raise OptionError("folder", "be a folder", str(folder))
    missing = [folder, *(parent for parent in folder.parents if not parent.exists())]
    for path in reversed(missing):
        if not path.exists():
            path.mkdir(exist_ok=True)
            disk.sync_folder(path.parent)


def _sync_again(path: Path) -> None:
    with suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _previous(folder: Path) -> Manifest | None:
    """The existing snapshot; None if there is none, or it is damaged.

    Raises:
        NewerSnapshot: If a newer relive made it.
    """
    try:
        return read_manifest(folder)
    except NewerSnapshot:
        raise
    except SnapshotError:
        return None


def _remove_obsolete(folder: Path, disk: Disk, manifest: Manifest) -> None:
    """Remove files of earlier snapshots and of interrupted saves."""
    for path in sorted(folder.iterdir()):
        if NAMES.fullmatch(path.name) and path.name not in manifest.files:
            with suppress(OSError):
                disk.remove(path)


@final
class _Save:
    def __init__(self, subject: Subject, folder: Path, disk: Disk, codec: Codec, journal: str | None) -> None:
        self._journal = journal
        self._subject = subject
        self._folder = folder
        self._disk = disk
        self._codec = codec
        self._buffer = np.empty(_PIECE_BYTES, np.uint8)
        self._open: dict[int, Path] = {}
        count = subject.layout.lanes
        self._lost = np.zeros(count, np.int64)  # rows below were overwritten before they could be copied

    def run(self, previous: Manifest | None) -> Manifest:
        subject = self._subject
        size = self._segment_rows()
        tails, heads = subject.store.heads()
        kept: list[Segment] = []
        known = subject.followed and previous is not None and previous.id in subject.heads
        if known and previous is not None and previous.layout == subject.layout:
            there = {path.name: path.stat().st_size for path in self._folder.iterdir() if path.is_file()}
            kept = [
                segment
                for segment in kept_segments(previous, subject.heads[previous.id], tails, size)
                if there.get(segment.note.file) == segment.note.bytes
            ]
        state = self._create()
        os.lseek(state, STATE_HEADER, os.SEEK_SET)
        held = first_missing(missing_runs(kept, tails, heads), heads)
        journal, log = self._begin_journal()
        before = subject.journal
        try:
            lanes, *key, position, batches, dropped, largest, state_bytes = subject.reader.freeze(
                held, state, log, self._journal == "synced"
            )
        except BaseException:
            if journal is not None:
                self._disk.remove(self._folder / journal)
            raise
        subject.journal = None if journal is None else (self._folder.resolve(), journal)
        if before is not None and self._journal == "synced":
            _sync_again(before[0] / before[1])  # what the new one goes on from
        tails, heads = lanes[:, 0].copy(), lanes[:, 1].copy()
        note = self._finish_state(state, state_bytes)
        written = self._write_rows(missing_runs(kept, tails, heads), heads, size)
        copied_tails, copied_heads = self._copied_range(lanes)
        manifest = Manifest(
            id=secrets.token_hex(16),
            layout=subject.layout,
            stack=subject.stack,
            max_episodes=subject.max_episodes,
            sampler=to_plain(subject.sampler),
            window=to_plain(subject.window),
            key=(key[0], key[1]),
            position=position,
            batches=batches,
            dropped=dropped,
            largest=largest,
            lanes=tuple(
                LaneNote(int(tail), int(head), int(start) if tail == lane[0] else None, int(gone))
                for tail, head, lane, start, gone in zip(
                    copied_tails, copied_heads, lanes, lanes[:, 2], lanes[:, 3], strict=True
                )
            ),
            segments=tuple(
                Segment(segment.note, segment.rows, runs)
                for segment in (*kept, *written)
                if (runs := trimmed(segment.runs, copied_tails, copied_heads))
            ),
            state=note,
            journal=journal,
        )
        self._disk.sync_folder(self._folder)
        file = self._create()
        self._disk.write(file, manifest.encode())
        self._rename(file, MANIFEST)
        self._disk.sync_folder(self._folder)
        return manifest

    def abandon(self) -> None:
        """Close and remove unfinished files."""
        for file, path in list(self._open.items()):
            with suppress(OSError):
                os.close(file)
            with suppress(OSError):
                self._disk.remove(path)

    def _begin_journal(self) -> tuple[str | None, int]:
        if self._journal is None:
            return None, -1
        name = f"journal-{secrets.token_hex(8)}.log"
        subject = self._subject
        path, synced = self._folder / name, self._journal == "synced"
        follows = None
        if subject.journal is not None and subject.journal[0] == self._folder.resolve():
            follows = subject.journal[1]
        return name, begin_journal(self._disk, path, subject.layout, follows, synced=synced)

    def _segment_rows(self) -> int:
        row = self._subject.layout.schema.row_nbytes + 1
        return min(SEGMENT_ROWS, max(256, _SEGMENT_BYTES // row))

    def _create(self) -> int:
        path = self._folder / f"tmp-{secrets.token_hex(8)}"
        file = self._disk.create(path)
        self._open[file] = path
        return file

    def _rename(self, file: int, name: str) -> None:
        """Make a file safe, then give it its name."""
        self._disk.sync(file)
        path = self._open.pop(file)
        os.close(file)
        self._disk.rename(path, self._folder / name)

    def _finish_state(self, file: int, count: int) -> FileNote | None:
        if count == 0:
            path = self._open.pop(file)
            os.close(file)
            self._disk.remove(path)
            return None
        header = encode_header(state_tensors(self._subject.sampler, self._subject.layout, count), {}, size=STATE_HEADER)
        os.lseek(file, 0, os.SEEK_SET)
        self._disk.write(file, header)
        hashed = _core.Hash()
        hashed.update(header)
        while read := os.readv(file, [self._buffer.data]):
            hashed.update(self._buffer[:read])
        name = f"sampler-{secrets.token_hex(8)}.safetensors"
        self._rename(file, name)
        return FileNote(name, STATE_HEADER + count, f"{hashed.digest():016x}")

    def _write_rows(self, missing: list[list[tuple[int, int]]], heads: Array, size: int) -> list[Segment]:
        segments = []
        held = first_missing(missing, heads)
        waiting: deque[tuple[int, str]] = deque()
        for runs in segments_of(missing, size):
            segment, file = self._write_segment(runs)
            segments.append(segment)
            self._disk.hurry(file)
            waiting.append((file, segment.note.file))
            if len(waiting) > _ON_THE_WAY:
                self._rename(*waiting.popleft())
            for run in runs:
                held[run.lane] = run.first + run.count
            if not self._subject.ground.others:
                self._subject.store.release(held)
        for file, name in waiting:
            self._rename(file, name)
        return segments

    def _write_segment(self, runs: list[Run]) -> tuple[Segment, int]:
        """A segment, and its file, which has a temporary name still."""
        subject = self._subject
        rows = sum(run.count for run in runs)
        tensors: dict[str, Tensor] = {"flags": (np.dtype(np.uint8), (rows,))}
        for column in subject.layout.schema:
            tensors[f"field/{column.key}"] = (column.dtype, (rows, *column.shape))
        file = self._create()
        out = self._codec.writer(lambda data: self._disk.write(file, data))
        out.write(encode_header(tensors, {"runs": str([[run.lane, run.first, run.count] for run in runs])}))
        columns = subject.layout.schema.columns
        for index in range(-1, len(columns)):
            width = 1 if index < 0 else columns[index].nbytes
            for piece in _pieces(runs, max(1, _PIECE_BYTES // width)):
                if width > len(self._buffer):
                    self._buffer = np.empty(width, np.uint8)
                count = subject.store.take(index, np.array(piece, np.int64), self._buffer)
                out.write(self._buffer[:count])
                self._note_lost(piece)
        note = out.finish()
        name = f"rows-{secrets.token_hex(8)}.safetensors{self._codec.suffix}"
        return Segment(FileNote(name, note.bytes, note.xxh64), rows, tuple(runs)), file

    def _note_lost(self, piece: Sequence[tuple[int, int, int]]) -> None:
        if not self._subject.ground.others:
            return
        for lane, first, count in piece:
            overwritten, _ = self._subject.store.lost(lane)
            if overwritten > first:
                self._lost[lane] = max(self._lost[lane], min(overwritten, first + count))

    def _copied_range(self, lanes: Array) -> tuple[Array, Array]:
        """Tails and heads of the rows copied: other processes may have overwritten some meanwhile."""
        tails, heads = lanes[:, 0].copy(), lanes[:, 1].copy()
        if self._subject.ground.others:
            for lane, revision in enumerate(lanes[:, 4]):
                # Cut meanwhile, or by a writer that died: its newest rows have changed.
                if revision % 2 or self._subject.store.lost(lane)[1] != revision:
                    heads[lane] = max(tails[lane], heads[lane] - 2)
                    # Nor can an ended step stay whose closing row is one of them. As it was at the instant of the save:
                    # by now other rows may lie in its place.
                    if heads[lane] > tails[lane] and not self._subject.layout.schema.loose:
                        heads[lane] -= lanes[lane, 5]
            tails = np.minimum(np.maximum(tails, self._lost), heads)
        return tails, heads


def _pieces(runs: list[Run], most: int) -> list[list[tuple[int, int, int]]]:
    """Runs in groups of at most so many rows: lane, first, count each."""
    pieces: list[list[tuple[int, int, int]]] = [[]]
    room = most
    for run in runs:
        first, left = run.first, run.count
        while left:
            count = min(left, room)
            pieces[-1].append((run.lane, first, count))
            first, left, room = first + count, left - count, room - count
            if room == 0:
                pieces.append([])
                room = most
    return [piece for piece in pieces if piece]
