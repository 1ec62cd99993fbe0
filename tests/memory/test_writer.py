"""Writers: actors' lanes of a shared memory."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import relive as rl
from playing import STEP, small
from refusals import refused

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"test-{uuid.uuid4().hex}"
    yield chosen
    Path(f"/dev/shm/relive-{chosen}").unlink(missing_ok=True)


def test_a_lane_has_one_writer(name: str) -> None:
    with small(name) as memory, rl.Writer(name, 1) as writer:
        with refused(rl.errors.StorageError, "lane 1"):
            rl.Writer(name, [0, 1])
        with refused(rl.errors.StorageError, "lane 1"):
            memory.append(**{key: np.stack([value, value]) for key, value in STEP.items()})
        assert len(memory) == 0
        memory.append(lanes=0, **STEP)
        writer.append(**STEP)
        assert len(memory) == 2
        writer.close()
        memory.append(lanes=1, **STEP)


def test_a_lane_that_is_taken_over_goes_on_with_a_new_episode(name: str) -> None:
    with small(name, None) as memory:
        for count in (1, 3):
            with rl.Writer(name) as writer:
                for _ in range(count):
                    writer.append(**STEP)
        with rl.Writer(name) as writer:
            writer.append(**STEP)
            # One row alone says nothing of what followed it; of three, the last is what was seen after the second.
            assert memory.episodes.length.tolist() == [2, 1]
            assert memory.episodes.truncated.tolist() == [True, False]


def test_writers_say_what_is_wrong(name: str) -> None:
    with refused(rl.errors.StorageError, "shared memory 'test-*'", got="no such segment"):
        rl.Writer(name, 0)
    with refused(rl.errors.OptionError, "name"):
        rl.Shared("../../etc/passwd")
    with small(name) as memory:
        with refused(rl.errors.OptionError, "lanes"):
            rl.Writer(name, 5)
        with rl.Writer(name, [1]) as writer:
            with refused(rl.errors.OptionError, "lanes"):
                writer.append(lanes=0, **STEP)
            with pytest.raises(rl.errors.StepError):
                writer.append(obs=1)
            assert repr(writer).startswith(f"Writer({name!r}, lanes [1], Schema(")
        assert len(memory) == 0
    with refused(rl.errors.StorageError, "memory", got="one that was closed"):
        memory.append(lanes=0, **STEP)
    with refused(rl.errors.StorageError, "memory", got="one that was closed"):
        writer.append(**STEP)


def test_a_loaded_memory_leaves_its_lanes_to_actors(name: str, tmp_path: Path) -> None:
    with small(name) as memory:
        for _ in range(5):
            memory.append(lanes=1, **STEP)
        memory.save(tmp_path / "saved")
    with rl.Memory.load(tmp_path / "saved", storage=rl.Shared(name)) as memory, rl.Writer(name) as writer:
        writer.append(**{key: np.stack([value, value]) for key, value in STEP.items()})
        assert memory.episodes.length.tolist() == [1, 4, 1]
