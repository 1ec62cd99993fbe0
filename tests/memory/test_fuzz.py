"""Snapshots with damaged, swapped, foreign and hostile files: an error or the right data, never anything else."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkable
import relive as rl
from refusals import refused
from relive.memory.snapshot.manifest import digest
from test_crash import fill, fingerprint, new_memory

CASES = [120, pytest.param(2500, marks=pytest.mark.slow)]

Change = Callable[[Path, random.Random], None]


def make(folder: Path, kind: str) -> rl.Memory:
    sampler = {"prioritized": rl.Prioritized(), "shuffled": rl.Shuffled()}.get(kind, rl.Uniform())
    memory = new_memory(450, sampler)
    fill(memory, 0, 600)
    memory.sample(8)
    memory.save(folder, compress="zstd" if kind == "zstd" else None)
    if kind == "journal":
        memory.save(folder, journal="synced")
    fill(memory, 600, 20)
    memory.sample(8)
    if kind != "journal":
        memory.save(folder, compress="zstd" if kind == "zstd" else None)
    return memory


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def flip(folder: Path, source: random.Random) -> None:
    path = source.choice(files(folder))
    data = bytearray(path.read_bytes())
    for _ in range(source.choice([1, 1, 3, 40])):
        # Often near the beginning, where headers are.
        at = source.randrange(min(len(data), source.choice([64, 4096, 1 << 30])))
        data[at] ^= 1 << source.randrange(8)
    path.write_bytes(data)


def truncate(folder: Path, source: random.Random) -> None:
    path = source.choice(files(folder))
    data = path.read_bytes()
    path.write_bytes(data[: source.randrange(len(data))])


def extend(folder: Path, source: random.Random) -> None:
    path = source.choice(files(folder))
    path.write_bytes(path.read_bytes() + source.randbytes(source.randrange(1, 100)))


def swap(folder: Path, source: random.Random) -> None:
    one, two = source.choice(files(folder)), source.choice(files(folder))
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)


def remove(folder: Path, source: random.Random) -> None:
    source.choice(files(folder)).unlink()


def scramble(folder: Path, source: random.Random) -> None:
    path = source.choice(files(folder))
    size = path.stat().st_size
    path.write_bytes(source.choice([source.randbytes(size), bytes(size), b"\x80\x04pickle", b"{}", b""]))


DAMAGES: list[Change] = [flip, flip, flip, truncate, extend, swap, remove, scramble]


@pytest.mark.parametrize("kind", ["prioritized", "shuffled", "zstd", "journal"])
@pytest.mark.parametrize("cases", CASES)
def test_damaged_files(tmp_path: Path, kind: str, cases: int) -> None:
    """Damage is found, whatever was hit; what loads all the same is what was saved."""
    folder, copy = tmp_path / "saved", tmp_path / "copy"
    memory = make(folder, kind)
    if kind == "journal":
        memory = rl.Memory.load(folder)
    expected = fingerprint(memory)
    refused = 0
    for case in range(cases):
        source = random.Random(f"{kind} {case}")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        source.choice(DAMAGES)(copy, source)
        try:
            loaded = rl.Memory.load(copy)
        except rl.errors.SnapshotError as error:
            assert str(copy) in str(error)
            refused += 1
            continue
        if kind == "journal":  # a record that was cut off is no damage: what is there is right
            checkable.check_lanes(loaded)
        else:
            assert fingerprint(loaded) == expected
    assert refused > cases * 0.7


VALUES: list[Any] = [
    *(0, 1, -1, 2**31, 2**53, 2**62, 2**63, 2**64, 10**30, 1.5, 1e308, -0.0, float("nan"), float("inf")),
    *(None, True, "", "x", "../../etc/passwd", "/etc/passwd", "rows-0000000000000000.safetensors", "a" * 5000, [], {}),
    *(
        [[]],
        [0, 0, 0, 0],
        {"kind": None},
        {"kind": "LinearSchedule"},
        {"kind": "os.system"},
        "ffffffffffffffff",
        "float32",
        "O",
    ),
]


def hostile(value: Any, source: random.Random, depth: int = 0) -> Any:
    """The same JSON with one part changed."""
    if isinstance(value, dict) and value and source.random() < 0.95:
        key = source.choice(list(value))
        if source.random() < 0.1:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: hostile(value[key], source, depth + 1)}
    if isinstance(value, list) and value and source.random() < 0.95:
        at = source.randrange(len(value))
        if source.random() < 0.1:
            return value[:at] + value[at + 1 :] * source.choice([0, 1, 2])
        return [*value[:at], hostile(value[at], source, depth + 1), *value[at + 1 :]]
    if type(value) is int and source.random() < 0.5:
        return value + source.choice([-1, 1, 2, -3, 256, 16384])
    return source.choice(VALUES)


def rewrite_manifest(folder: Path, change: Callable[[Any], Any]) -> None:
    path = folder / "manifest.json"
    first, _, text = path.read_bytes().partition(b"\n")
    body = json.dumps(change(json.loads(text))).encode()
    about = {**json.loads(first), "bytes": len(body), "xxh64": digest(body)}
    path.write_bytes(json.dumps(about).encode() + b"\n" + body)


def hostile_manifest(folder: Path, source: random.Random) -> None:
    rewrite_manifest(folder, lambda body: hostile(body, source))


def hostile_header(folder: Path, source: random.Random) -> None:
    """A file of arrays whose header or bytes were changed, with the right checksum in the manifest."""
    path = source.choice([path for path in files(folder) if path.suffix == ".safetensors"])
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + length], bytearray(data[8 + length :])
    way = source.randrange(4)
    if way == 0:
        header = json.dumps(hostile(json.loads(header), source)).encode()
    elif way == 1:
        header = source.choice([b"[" * 100_000, b"{" * 1000, b'{"a":' * 50_000, b"\xff" * 30, b"{}"])
    elif way == 2:
        for _ in range(5):
            rest[source.randrange(len(rest))] ^= 1 << source.randrange(8)
    size = len(header) if way < 3 else source.choice([0, 1, 2**32, 2**63, 2**64 - 1, len(header) + 1])
    data = size.to_bytes(8, "little") + header + bytes(rest)
    path.write_bytes(data)

    def note(body: Any) -> Any:
        for entry in [*body["segments"], body["state"] or {}]:
            if entry.get("file") == path.name:
                entry |= {"bytes": len(data), "xxh64": digest(data)}
        return body

    rewrite_manifest(folder, note)


@pytest.mark.parametrize("kind", ["prioritized", "shuffled"])
@pytest.mark.parametrize("change", [hostile_manifest, hostile_header])
@pytest.mark.parametrize("cases", CASES)
def test_hostile_files(tmp_path: Path, kind: str, change: Change, cases: int) -> None:
    """Files made to harm, with right checksums: an error, or a memory that works."""
    folder, copy = tmp_path / "saved", tmp_path / "copy"
    make(folder, kind)
    refused = 0
    for case in range(cases):
        source = random.Random(f"{kind} {case}")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        change(copy, source)
        try:
            memory = rl.Memory.load(copy)
            batch = memory.sample(16)
            assert batch.obs.shape[1:] == (checkable.WIDTH,)
            fill(memory, 0, 50)
            memory.sample(16)
        except rl.errors.ReliveError:
            refused += 1
    assert refused > cases * 0.3


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    """A manifest that names files elsewhere is refused, and so are links out of the folder."""
    folder = tmp_path / "saved"
    make(folder, "uniform")
    outside = tmp_path / "rows-0000000000000000.safetensors"
    segment = next(path for path in files(folder) if path.name.startswith("rows-"))
    shutil.copy(segment, outside)
    for name in ("../" + outside.name, str(outside), "rows-0000000000000000.safetensors/../" + segment.name):

        def rename(body: Any, name: str = name) -> Any:
            body["segments"][0]["file"] = name
            return body

        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        rewrite_manifest(copy, rename)
        with refused(rl.errors.SnapshotError, "manifest.json"):
            rl.Memory.load(copy)
    segment.rename(outside)
    segment.symlink_to(outside)
    with refused(rl.errors.SnapshotError, "rows-*.safetensors", got="Too many levels of symbolic links"):
        rl.Memory.load(folder)


@pytest.mark.parametrize("cases", CASES)
def test_damaged_files_of_rows(tmp_path: Path, cases: int) -> None:
    """Headers of mapped files: an error, or rows that can be read. The rows themselves carry no checksums."""
    path, copy = tmp_path / "rows", tmp_path / "copy"
    with new_memory(60, storage=rl.Mapped(path)) as memory:
        fill(memory, 0, 90)
    whole = path.read_bytes()
    refused = 0
    for case in range(cases):
        source = random.Random(case)
        data = bytearray(whole)
        if source.random() < 0.2:
            del data[source.randrange(len(data)) :]
        else:
            for _ in range(source.choice([1, 3])):
                data[source.choice([source.randrange(40), source.randrange(4096, 9000)])] ^= 1 << source.randrange(8)
        copy.write_bytes(data)
        try:
            with rl.Memory.open(rl.Mapped(copy)) as memory:
                np.testing.assert_array_equal(checkable.newest(memory), [88, 88])
        except rl.errors.StorageError as error:
            assert str(copy) in str(error)
            refused += 1
        finally:
            copy.unlink()
    assert refused > cases * 0.3


@pytest.mark.parametrize("cases", CASES)
def test_hostile_headers_of_rows(tmp_path: Path, cases: int) -> None:
    """Headers made to harm, with right checksums: an error, or rows that can be read."""
    path, copy = tmp_path / "rows", tmp_path / "copy"
    with new_memory(60, storage=rl.Mapped(path)) as memory:
        fill(memory, 0, 90)
    whole = path.read_bytes()
    size = int.from_bytes(whole[20:24], "little")
    described = json.loads(whole[8192 : 8192 + size])
    lanes = [{**described, "lanes": n} for n in (0, 2**31 + 1, 2**62, 2**63, 2**70, -1, 1.5)]
    spans = [{**described, "span": n} for n in (0, 2**46, 2**62, 2**70)]
    fields = described["schema"]["fields"]
    endless = {**fields[0], "path": [*fields[0]["path"], *["a"] * 2000]}
    deep = {**described, "schema": {**described["schema"], "fields": [endless, *fields[1:]]}}
    chosen, refused = [*lanes, *spans, deep], 0
    for case in range(cases):
        source = random.Random(case)
        changed = chosen[case] if case < len(chosen) else hostile(described, source)
        text = json.dumps(changed).encode()
        data = bytearray(whole)
        data[8192 : 8192 + max(len(text), size)] = text.ljust(max(len(text), size), b"\0")
        data[20:24], data[24:32] = len(text).to_bytes(4, "little"), int(digest(text), 16).to_bytes(8, "little")
        copy.write_bytes(data)
        try:
            with rl.Memory.open(rl.Mapped(copy)) as memory:
                memory.sample(4)
        except rl.errors.ReliveError:
            refused += 1
        assert case >= len(chosen) or refused == case + 1
    assert refused > cases * 0.3


@pytest.mark.parametrize("cases", CASES)
def test_hostile_journals(tmp_path: Path, cases: int) -> None:
    """Records made to harm, with right checksums: an error, or a memory that works."""
    folder = tmp_path / "saved"
    make(folder, "journal")
    (path,) = folder.glob("journal-*.log")
    data, records, at = path.read_bytes(), [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        records.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    for case in range(cases):
        source = random.Random(case)
        changed = [bytearray(record) for record in records]
        one = source.choice(changed)
        for _ in range(source.choice([1, 3])):
            one[source.randrange(min(len(one), source.choice([40, 1 << 30])))] ^= 1 << source.randrange(8)
        if source.random() < 0.2:
            del one[source.randrange(8, len(one)) :]
        if source.random() < 0.1:
            changed.append(source.choice(changed))
        path.write_bytes(
            b"".join(
                len(one).to_bytes(8, "little") + int(digest(bytes(one)), 16).to_bytes(8, "little") + bytes(one)
                for one in changed
            )
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(rl.errors.ReliveError):
                rl.Memory.load(folder, salvage=source.random() < 0.5).sample(8)


@pytest.mark.parametrize("content", [b"", bytes(500)])
def test_a_journal_of_nothing_is_damage(tmp_path: Path, content: bytes) -> None:
    """Its first record was on disk before the snapshot named it."""
    memory = new_memory(50)
    memory.save(tmp_path / "saved", journal="synced")
    (path,) = (tmp_path / "saved").glob("journal-*.log")
    path.write_bytes(content)
    with refused(rl.errors.SnapshotError, "journal-*.log", got="nothing"):
        rl.Memory.load(tmp_path / "saved")
    path.unlink()
    os.mkfifo(path)
    with refused(rl.errors.SnapshotError, "journal-*.log", got="something else"):
        rl.Memory.load(tmp_path / "saved")


def test_a_damaged_journal_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    memory = new_memory(450)
    memory.save(folder, journal="synced")
    for first in range(0, 200, 20):
        fill(memory, first, 20)
    (path,) = folder.glob("journal-*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with refused(rl.errors.SnapshotError, "journal-*.log"):
        rl.Memory.load(folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loaded = rl.Memory.load(folder, salvage=True)
    assert "used up to the damage" in str(said[0].message)
    assert 0 < len(loaded) < len(memory)
    checkable.check_lanes(loaded)


@pytest.mark.parametrize("head", [2**40, 2**59, 2**59 + 1, 2**60, 2**62])
def test_a_memory_with_large_serials_goes_on_and_is_saved_or_is_refused(tmp_path: Path, head: int) -> None:
    """One at 2^60 was once loaded, and then could not be saved."""
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 8, seed=0)
    for t in range(4):
        memory.append(obs=t, reward=0.0, terminated=False, truncated=False)
    memory.save(tmp_path / "saved")

    def move(body: Any) -> Any:
        body["lanes"] = [[head - 4, head, head - 4, 0]]
        body["segments"][0]["runs"] = [[0, head - 4, 4, 0]]
        return body

    rewrite_manifest(tmp_path / "saved", move)
    try:
        again = rl.Memory.load(tmp_path / "saved")
    except rl.errors.SnapshotError:
        assert head > 2**59
        return
    for t in range(20):
        again.append(obs=t, reward=0.0, terminated=False, truncated=False)
    again.save(tmp_path / "again")
    assert head <= 2**59
    assert int(again.inspect.heads[0]) == head + 20
