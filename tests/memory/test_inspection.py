"""The newest steps, beside a list of all that was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relive as rl
from refusals import refused
from relive.errors import StorageError


@given(st.data())
def test_the_newest_are_the_newest(data: Any) -> None:
    lanes = data.draw(st.integers(1, 3))
    capacity = data.draw(st.integers(4, 12)) * lanes
    memory = rl.Memory(
        rl.Schema(obs=rl.Field((2,)), action=rl.Field((), "int64"), reward=rl.Field()), capacity=capacity, lanes=lanes
    )
    written: list[list[int]] = [[] for _ in range(lanes)]
    for number in range(data.draw(st.integers(0, 40))):
        ended = np.array([data.draw(st.booleans()) for _ in range(lanes)])
        values = number * lanes + np.arange(lanes)
        obs = np.repeat(values[:, None], 2, axis=1).astype(np.float32)
        memory.append(
            obs=obs,
            action=values,
            reward=np.zeros(lanes),
            terminated=ended,
            truncated=np.zeros(lanes, bool),
            final_obs=-obs - 1,
        )
        for lane in range(lanes):
            written[lane].append(int(values[lane]))
    size = data.draw(st.integers(1, 50))
    found = memory.inspect.newest(size)
    assert len(found.action) == min(size, len(memory))
    assert (found.obs[:, 0] == found.action).all(), "no closing row is among them"
    for lane in range(lanes):
        mine = found.action[found.lanes == lane].tolist()
        assert mine == written[lane][::-1][: len(mine)], "the newest of a lane first"


def test_nested_fields_and_refusals() -> None:
    memory = rl.Memory(rl.Schema(obs={"a": rl.Field(), "b": rl.Field((2,))}, reward=rl.Field()), capacity=10)
    for number in range(5):
        memory.append(obs={"a": number, "b": [number, number]}, reward=0.0, terminated=False, truncated=False)
    found = memory.inspect.newest(2)
    assert found.obs.a.tolist() == [4, 3]
    assert found.obs.b.tolist() == [[4, 4], [3, 3]]
    with refused(rl.errors.OptionError, "size"):
        memory.inspect.newest(0)


def test_what_was_taken_before_closing_is_closed_too(tmp_path: Path) -> None:
    memory = rl.Memory(rl.Schema(obs=rl.Field()), 10, storage=rl.Mapped(tmp_path / "rows"))
    inspect, transfer = memory.inspect, memory.transfer
    memory.close()
    for call in (
        lambda: inspect.heads,
        inspect.census,
        lambda: transfer.sampling_weight,
        lambda: transfer.pack_rows([]),
    ):
        with pytest.raises(StorageError):
            call()
