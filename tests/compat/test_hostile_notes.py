"""Notes of saved buffers that were made to harm, with right checksums: an error of ours, or a buffer that works."""

from __future__ import annotations

import json
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


def test_hostile_notes(tmp_path: Path) -> None:
    buffer = make()
    for _ in range(5):
        buffer.store(*STEP)
    buffer.save(tmp_path)
    path = tmp_path / "buffer.json"
    whole = json.loads(path.read_text())
    refused = 0
    for inside in changed(json.loads(whole["buffer"])):
        text = json.dumps(inside)
        path.write_text(json.dumps({"buffer": text, "xxh64": digest(text.encode())}))
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
