"""Notes of saved buffers that were made to harm, with right checksums: an error of ours, or a buffer that works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import relive as rl
from relive.compat.xuance.v1_1.memory_tools import DummyOffPolicyBuffer
from relive.memory.snapshot.manifest import digest

STEP = (np.zeros((2, 3), np.float32), np.zeros(2, int), np.zeros(2), np.zeros(2, bool), np.zeros((2, 3), np.float32))
VALUES: list[Any] = [None, 0, -1, 2**70, 1.5, "", "x", "../rows", "a" * 5000, [], {}, [[]], True]


def make() -> DummyOffPolicyBuffer:
    return DummyOffPolicyBuffer(spaces.Box(-1, 1, (3,)), spaces.Discrete(2), None, 2, 10, 4)


def changed(value: Any) -> list[Any]:
    """The same JSON with one part changed, in every way."""
    if not isinstance(value, dict):
        return list(VALUES)
    found: list[Any] = list(VALUES)
    for key in value:
        found.append({name: part for name, part in value.items() if name != key})
        found += [{**value, key: part} for part in changed(value[key])]
    return found


def changed_notes(path: Path) -> Iterator[None]:
    """The file with one part of its notes changed, in every way, and the right checksum."""
    whole = json.loads(path.read_text())
    for inside in changed(json.loads(whole["buffer"])):
        text = json.dumps(inside)
        path.write_text(json.dumps({"buffer": text, "xxh64": digest(text.encode())}))
        yield


def test_hostile_notes(tmp_path: Path) -> None:
    buffer = make()
    for _ in range(5):
        buffer.store(*STEP)
    buffer.save(tmp_path)
    path, refused = tmp_path / "buffer.json", 0
    for _ in changed_notes(path):
        again = make()
        try:
            again.load(tmp_path)
            again.sample()
        except rl.errors.ReliveError:
            refused += 1
    assert refused > 50
    for text in ("", "3", "[]", "[" * 100_000, json.dumps({"buffer": 3, "xxh64": ""})):
        path.write_text(text)
        with pytest.raises(rl.errors.SnapshotError):
            make().load(tmp_path)


def test_hostile_notes_of_pymarls_buffer(tmp_path: Path) -> None:
    """A wrong head of the ring once led to rows of other episodes, or to a bare error."""
    pytest.importorskip("torch")
    from relive.compat.pymarl import EpisodeBatch, ReplayBuffer

    scheme = {"obs": {"vshape": 2, "group": "agents"}}

    def make_ring() -> ReplayBuffer:
        return ReplayBuffer(scheme, {"agents": 2}, 4, 6)

    ring = make_ring()
    for length in (3, 5, 2, 4, 6):
        batch = EpisodeBatch(scheme, {"agents": 2}, 1, 6)
        for t in range(length):
            batch.update({"obs": np.full((1, 2, 2), 10 * length + t)}, ts=t)
        ring.insert_episode_batch(batch)
    ring.save(tmp_path)
    refused = 0
    for _ in changed_notes(tmp_path / "buffer.json"):
        again = make_ring()
        try:
            again.load(tmp_path)
            again.sample(4)
            again.insert_episode_batch(batch)
            found = again.sample(4)["obs"].numpy()
        except rl.errors.ReliveError:
            refused += 1
            continue
        assert set(np.unique(found // 10)) <= {0, 2, 3, 4, 5, 6}
    assert refused > 50
