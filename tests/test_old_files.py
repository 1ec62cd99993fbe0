"""Files that this project wrote under its former name are refused by a sentence that says so."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import relive as rl
from relive.old_files import GOT, REMEDY

SCHEMA = rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "uint8"))


def snapshot(path: Path) -> Callable[[], object]:
    rl.Memory(SCHEMA, 10).save(path)
    first, _, rest = (path / "manifest.json").read_bytes().partition(b"\n")
    (path / "manifest.json").write_bytes(first.replace(b"relive", b"recollect") + b"\n" + rest)
    return lambda: rl.Memory.load(path)


def rows(path: Path) -> Callable[[], object]:
    path.write_bytes(struct.pack("<16sIIQ", b"recollect rows\r\n", 1, 0, 0).ljust(1 << 17, b"\0"))
    return lambda: rl.Memory.open(rl.Mapped(path))


def shards(path: Path) -> Callable[[], object]:
    path.mkdir()
    about = {"format": "recollect cluster", "version": 1, "turn": 0, "shards": 1, "tally": {}}
    (path / "cluster.json").write_text(json.dumps(about))
    return lambda: rl.distributed.Shards.load(path, SCHEMA, 10)


def minari(path: Path) -> Callable[[], object]:
    memory = rl.Memory(SCHEMA, 10)
    memory.append(obs=np.zeros(2), action=0, reward=0.0, terminated=True, truncated=False)
    memory.export(path, kind="minari")
    (about,) = path.rglob("metadata.json")
    about.write_text(about.read_text().replace('"relive"', '"recollect"'))
    return lambda: rl.Memory.from_dataset(path)


def run(path: Path) -> Callable[[], object]:
    path.mkdir()
    (path / "config.toml").write_text('env = "simple"\nalgorithm = "maddpg"\n')
    (path / "checkpoint.json").write_text('{"version": 5, "place": 0}')
    return lambda: rl.resume(path)


@pytest.mark.parametrize("written", [snapshot, rows, shards, minari, run])
def test_old_files_are_refused_by_a_sentence(written: Callable[[Path], Callable[[], object]], tmp_path: Path) -> None:
    read = written(tmp_path / "old")
    with pytest.raises(rl.errors.ReliveError) as caught:
        read()
    assert (caught.value.problem.got, caught.value.problem.remedy) == (GOT, REMEDY)  # type: ignore[attr-defined]
