"""The manifest of a snapshot: its files and state (docs/format.md)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from relive import _core
from relive.errors import SnapshotError
from relive.memory.snapshot.disk import open_file
from relive.memory.storage import Layout
from relive.old_files import GOT, REMEDY, is_old

__all__ = ["MANIFEST", "FileNote", "Manifest", "Run", "Segment", "digest", "read_manifest"]

MANIFEST = "manifest.json"
FORMAT = "relive snapshot"
VERSION = 1
NAMES = re.compile(r"(rows|sampler|journal)-[0-9a-f]{16}\.(safetensors(\.zst)?|log)|tmp-[0-9a-f]{16}")

_MOST_BYTES = 1 << 28
_MOST_SERIALS = 1 << 60


@final
@dataclass(frozen=True)
class FileNote:
    """A file of the snapshot: its name, its bytes, and their XXH64."""

    file: str
    bytes: int
    xxh64: str


@final
@dataclass(frozen=True)
class Run:
    """Rows of one lane that follow each other, in serials and in a segment from row ``at`` on."""

    lane: int
    first: int
    count: int
    at: int


@final
@dataclass(frozen=True)
class Segment:
    """A file of rows, of which the snapshot uses some."""

    note: FileNote
    rows: int
    runs: tuple[Run, ...]


@final
@dataclass(frozen=True)
class LaneNote:
    """What a lane held: rows [tail, head), the first step of the oldest episode (None: unknown), episodes before it."""

    tail: int
    head: int
    start: int | None
    gone: int


@final
@dataclass(frozen=True)
class Manifest:
    """A whole snapshot."""

    id: str
    layout: Layout
    stack: dict[str, int]
    sampler: dict[str, Any]
    window: dict[str, Any]
    key: tuple[int, int]
    position: int
    batches: int
    dropped: int
    largest: float
    lanes: tuple[LaneNote, ...]
    segments: tuple[Segment, ...]
    state: FileNote | None
    journal: str | None = None
    max_episodes: int | None = None

    def encode(self) -> bytes:
        """The file's bytes: a line about the rest, and the rest."""
        most = {} if self.max_episodes is None else {"max_episodes": self.max_episodes}
        body = {
            "id": self.id,
            "memory": {**self.layout.plain(), "stack": self.stack, **most},
            "sampler": self.sampler,
            "window": self.window,
            "generator": {"key": [f"{part:016x}" for part in self.key], "position": f"{self.position:016x}"},
            "batches": self.batches,
            "dropped": self.dropped,
            "largest": self.largest,
            "lanes": [[lane.tail, lane.head, lane.start, lane.gone] for lane in self.lanes],
            "segments": [
                {
                    **vars(segment.note),
                    "rows": segment.rows,
                    "runs": [[run.lane, run.first, run.count, run.at] for run in segment.runs],
                }
                for segment in self.segments
            ],
            "state": None if self.state is None else vars(self.state),
            "journal": self.journal,
        }
        text = json.dumps(body, separators=(",", ":")).encode() + b"\n"
        first = {"format": FORMAT, "version": VERSION, "bytes": len(text), "xxh64": digest(text)}
        return json.dumps(first).encode() + b"\n" + text

    @property
    def files(self) -> set[str]:
        """Names of all files that the snapshot needs."""
        names = {segment.note.file for segment in self.segments} | {MANIFEST}
        return names | ({self.state.file} if self.state else set()) | ({self.journal} if self.journal else set())


class NewerSnapshot(SnapshotError):
    """A snapshot of a format that only a newer relive knows; not to be written over."""


def digest(data: Any) -> str:
    """XXH64 of some bytes, in hexadecimal."""
    hashed = _core.Hash()
    hashed.update(data)
    return f"{hashed.digest():016x}"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a snapshot.

    Raises:
        SnapshotError: If there is none, or it is damaged, foreign or of a newer version.
    """
    path = folder / MANIFEST
    with os.fdopen(open_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_BYTES:
            raise SnapshotError(str(path), f"have at most {_MOST_BYTES} bytes", size)
        data = file.read(size)
    first, _, text = data.partition(b"\n")
    about = _json(path, first[:4096])
    if isinstance(about, dict) and is_old(about.get("format")):
        raise SnapshotError(str(path), f"begin with the format {FORMAT!r}", GOT, REMEDY)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise SnapshotError(
            str(path), f"begin with the format {FORMAT!r}", _brief(about), "It is another kind of file."
        )
    version = about.get("version")
    if version != VERSION:
        newer = type(version) is int and version > VERSION
        remedy = "Use a newer relive, or another folder." if newer else "It is damaged."
        kind = NewerSnapshot if newer else SnapshotError
        raise kind(str(path), f"be of format version {VERSION}", _brief(version), remedy)
    if about.get("bytes") != len(text) or about.get("xxh64") != digest(text):
        raise SnapshotError(str(path), "match its checksum", "a damaged or cut-off file", "Restore it from a copy.")
    try:
        return _decode(_json(path, text))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(str(path), "describe a snapshot", _brief(error)) from None


def _decode(body: Any) -> Manifest:
    memory, generator = body["memory"], body["generator"]
    layout = Layout.from_plain(memory)
    stack = memory["stack"]
    if not isinstance(stack, dict) or any(type(frames) is not int for frames in stack.values()):
        raise ValueError("stack is no mapping to frames")
    most = memory.get("max_episodes")
    if most is not None and not 1 <= _count(most) <= 2**62:
        raise ValueError("max_episodes")
    lanes = tuple(
        LaneNote(_count(tail), _count(head), None if start is None else _count(start), _count(gone))
        for tail, head, start, gone in body["lanes"]
    )
    if len(lanes) != layout.lanes:
        raise ValueError(f"{layout.lanes} lanes but notes of {len(lanes)}")
    for lane in lanes:
        if not 0 <= lane.head - lane.tail <= layout.span:
            raise ValueError(f"lane of rows {lane.tail} to {lane.head}")
    segments = tuple(
        Segment(_note(entry), _count(entry["rows"]), tuple(Run(*map(_count, run)) for run in entry["runs"]))
        for entry in body["segments"]
    )
    _check_cover(lanes, segments)
    key = generator["key"]
    largest = body["largest"]
    if len(key) != 2 or type(largest) not in (int, float) or not np.isfinite(largest):
        raise ValueError("generator or largest priority")
    journal = body["journal"]
    if journal is not None and (not isinstance(journal, str) or not NAMES.fullmatch(journal)):
        raise ValueError("journal's name")
    return Manifest(
        id=_hex(body["id"], 32),
        layout=layout,
        stack=stack,
        sampler=body["sampler"],
        window=body["window"],
        key=(int(_hex(key[0], 16), 16), int(_hex(key[1], 16), 16)),
        position=int(_hex(generator["position"], 16), 16),
        batches=_count(body["batches"]),
        dropped=_count(body["dropped"]),
        largest=float(largest),
        lanes=lanes,
        segments=segments,
        state=None if body["state"] is None else _note(body["state"]),
        journal=journal,
        max_episodes=most,
    )


def _check_cover(lanes: tuple[LaneNote, ...], segments: tuple[Segment, ...]) -> None:
    """Every row of every lane is in exactly one place."""
    runs: list[list[tuple[int, int]]] = [[] for _ in lanes]
    for segment in segments:
        for run in segment.runs:
            if run.lane >= len(lanes) or run.count < 1 or run.at + run.count > segment.rows:
                raise ValueError(f"run outside its segment: {run}")
            runs[run.lane].append((run.first, run.first + run.count))
    for lane, found in zip(lanes, runs, strict=True):
        at = lane.tail
        for first, last in sorted(found):
            if first != at:
                raise ValueError(f"rows from {at} to {first} are nowhere or twice")
            at = last
        if at != lane.head:
            raise ValueError(f"rows from {at} to {lane.head} are nowhere")


def _note(entry: Any) -> FileNote:
    name = entry["file"]
    if not isinstance(name, str) or not NAMES.fullmatch(name):
        raise ValueError(f"file name {name!r:.60}")
    return FileNote(name, _count(entry["bytes"]), _hex(entry["xxh64"], 16))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_SERIALS:
        raise ValueError(f"{value!r:.60} is no count")
    return value


def _hex(value: Any, length: int) -> str:
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{length}}}", value):
        raise ValueError(f"{value!r:.60} is no hexadecimal number of {length} digits")
    return value


def _json(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(str(path), "be JSON", _brief(error), "It is damaged, or another kind of file.") from None


def _brief(value: object) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
