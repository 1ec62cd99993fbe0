"""Snapshots: what they hold, what they cost, and what they say when something is wrong."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkable
import relive as rl
from refusals import refused
from test_crash import fill, new_memory

GOLDEN = Path(__file__).parents[1] / "golden"


def same_batches(one: rl.Memory, two: rl.Memory, size: int = 16, count: int = 5) -> None:
    for _ in range(count):
        a, b = one.sample(size), two.sample(size)
        assert list(a) == list(b)
        for key in a:
            np.testing.assert_array_equal(a[key], b[key], err_msg=key)


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_a_loaded_memory_draws_the_same_batches(tmp_path: Path, compress: str | None) -> None:
    memory = new_memory(3000, rl.Prioritized(beta=rl.LinearSchedule(0.4, 1.0, 100)))
    fill(memory, 0, 4000)
    memory.update_priorities(memory.sample(64), np.linspace(0, 9, 64))
    memory.save(tmp_path / "saved", compress=compress)
    loaded = rl.Memory.load(tmp_path / "saved")
    assert loaded.sampler == memory.sampler
    same_batches(memory, loaded)
    for each in (memory, loaded):
        fill(each, 4000, 100)
        each.update_priorities(each.sample(8), np.arange(8.0))
    same_batches(memory, loaded)


def test_a_running_epoch_goes_on(tmp_path: Path) -> None:
    memory = new_memory(300, rl.Shuffled())
    fill(memory, 0, 200)
    batch = memory.sample(100)
    seen = set(zip(batch.lanes, batch.serials, strict=True))
    memory.save(tmp_path / "saved")
    loaded = rl.Memory.load(tmp_path / "saved")
    while len(seen) < loaded.ready:
        batch = loaded.sample(50)
        rows = set(zip(batch.lanes, batch.serials, strict=True))
        assert not rows & seen
        seen |= rows


def test_numbers_of_numpy_in_settings(tmp_path: Path) -> None:
    memory = rl.Memory(
        checkable.SCHEMA,
        np.int64(1000),
        np.int64(2),
        sampler=rl.Prioritized(alpha=np.float32(0.5), beta=rl.LinearSchedule(0.4, 1.0, np.int64(10))),  # type: ignore[arg-type]
        window=rl.NStep(np.int64(3)),  # type: ignore[arg-type]
        stack={"obs": np.int64(2)},  # type: ignore[dict-item]
        seed=0,
    )
    fill(memory, 0, 100)
    memory.save(tmp_path / "saved")
    same_batches(memory, rl.Memory.load(tmp_path / "saved"))


def test_a_sampler_that_keeps_something_else_is_no_damage(tmp_path: Path) -> None:
    for number, (was, now) in enumerate(
        [
            (rl.Shuffled(), rl.Prioritized()),
            (rl.Prioritized(beta=lambda step: 0.5), rl.Uniform()),
            (rl.Prioritized(beta=lambda step: 0.5), rl.Shuffled()),
        ]
    ):
        memory = new_memory(500, was)
        fill(memory, 0, 300)
        memory.sample(8)
        memory.save(tmp_path / str(number))
        rl.Memory.load(tmp_path / str(number), sampler=now).sample(8)


def test_a_child_leaves_the_parents_journal_and_rows_alone(tmp_path: Path) -> None:
    memory = new_memory(200)
    memory.save(tmp_path / "saved", journal="written")
    fill(memory, 0, 20)
    child = os.fork()
    if child == 0:
        fill(memory, 20, 30)
        os._exit(0)
    os.waitpid(child, 0)
    fill(memory, 20, 10)
    assert checkable.newest(rl.Memory.load(tmp_path / "saved")) == checkable.newest(memory) == [28, 28]


def test_another_sampler_window_or_storage(tmp_path: Path) -> None:
    memory = new_memory(500)
    fill(memory, 0, 400)
    memory.update_priorities(memory.sample(32), np.arange(32.0))
    memory.save(tmp_path / "saved")
    kept = rl.Memory.load(tmp_path / "saved", sampler=rl.Prioritized(beta=lambda step: 1.0))
    np.testing.assert_array_equal(kept.priorities, memory.priorities)
    anew = rl.Memory.load(tmp_path / "saved", sampler=rl.Prioritized(alpha=1.0))
    assert set(np.unique(anew.priorities)) == {0.0, 1.0}
    spans = rl.Memory.load(tmp_path / "saved", window=rl.Sequence(8), sampler=rl.Uniform())
    assert spans.sample(4).obs.shape == (4, 9, checkable.WIDTH)
    assert set(np.unique(rl.Memory.load(tmp_path / "saved", window=rl.NStep(3)).priorities)) == {0.0, 1.0}
    with rl.Memory.load(tmp_path / "saved", storage=rl.Mapped(tmp_path / "rows")) as mapped:
        same_batches(memory, mapped)
    with refused(rl.errors.StorageError, "rows", got="one that holds rows already"):
        rl.Memory.load(tmp_path / "saved", storage=rl.Mapped(tmp_path / "rows"))


def test_a_sampler_that_a_file_cannot_hold(tmp_path: Path) -> None:
    memory = new_memory(500, rl.Prioritized(beta=lambda step: 0.5))
    fill(memory, 0, 400)
    memory.update_priorities(memory.sample(32), np.arange(32.0))
    memory.save(tmp_path / "saved")
    with refused(rl.errors.OptionError, "sampler", got="one that a file cannot hold"):
        rl.Memory.load(tmp_path / "saved")
    same_batches(memory, rl.Memory.load(tmp_path / "saved", sampler=memory.sampler))


def test_all_kinds_of_schema(tmp_path: Path) -> None:
    """Groups, nested observations, agents' names, every dtype, one lane without an axis, stacks, loose rows."""
    schema = rl.Schema(
        hunter=rl.Group(obs={"image": rl.Field((2, 2), "uint8"), "place": (rl.Field((3,)), rl.Field((), "int16"))}),
        prey=rl.Group(obs=rl.Field((2,), "float16"), reward=rl.Field((2,))),
        state=rl.Field((), "float64"),
        seen=rl.Field((3,), "bool", role="observed"),
        count=rl.Field((), "uint64"),
        small=rl.Field((), "int8"),
    )
    schema.agents = {"hunter": ("ann", "bob"), "prey": ("cy",)}
    memory = rl.Memory(schema, 50, window=rl.NStep(2), stack={"hunter/obs/image": 2}, seed=3)
    rng = np.random.default_rng(0)
    for step in range(70):
        values: dict[str, Any] = {
            "hunter": {
                "obs": {"image": rng.integers(0, 255, (2, 2)), "place": (rng.random(3), step)},
            },
            "prey": {"obs": rng.random(2).astype(np.float16), "reward": rng.random(2)},
            "state": rng.random(),
            "seen": rng.random(3) < 0.5,
            "count": step + 2**50,
            "small": -step,
        }
        memory.append(**values, terminated=step % 9 == 8, truncated=False)
    memory.save(tmp_path / "saved")
    loaded = rl.Memory.load(tmp_path / "saved")
    assert loaded.schema == schema
    assert loaded.schema.agents == schema.agents
    state, batch, again = memory.random_state, memory.sample(8), loaded.sample(8)
    assert state == {**loaded.random_state, "position": state["position"], "batches": state["batches"]}
    for path in (("hunter", "obs", "image"), ("prey", "next_obs"), ("seen",), ("count",), ("next_state",)):
        one, two = batch, again
        for part in path:
            one, two = one[part], two[part]
        np.testing.assert_array_equal(one, two)
    loose = rl.Memory(rl.Schema(obs=rl.Field((2,)), next_obs=rl.Field((2,))), 40, 2, seed=0)
    for step in range(30):
        loose.append(obs=rng.random((2, 2)), next_obs=rng.random((2, 2)), reward=[1, 2],
                     terminated=[step % 5 == 4, False], truncated=[False, step % 7 == 6])  # fmt: skip
    loose.save(tmp_path / "loose")
    same_batches(loose, rl.Memory.load(tmp_path / "loose"))


def test_an_empty_memory(tmp_path: Path) -> None:
    memory = new_memory(20)
    memory.save(tmp_path / "saved")
    loaded = rl.Memory.load(tmp_path / "saved")
    assert len(loaded) == 0
    for each in (memory, loaded):
        fill(each, 0, 10)
    same_batches(memory, loaded)
    memory.clear()
    memory.save(tmp_path / "saved")
    assert len(rl.Memory.load(tmp_path / "saved")) == 0


def test_errors_say_which_file_and_why(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    memory = new_memory(500)
    fill(memory, 0, 400)
    with refused(rl.errors.OptionError, "folder"):
        rl.Memory.load(folder)
    folder.mkdir()
    manifest = folder / "manifest.json"
    with refused(rl.errors.SnapshotError, "manifest.json", got="No such file or directory"):
        rl.Memory.load(folder)
    memory.save(folder)
    good = manifest.read_bytes()
    for text, got in {
        b"hello\n": "Expecting value: line 1 column 1 (char 0)",
        b'{"format": "other"}\n': "{'format': 'other'}",
        good.replace(b'"version": 1', b'"version": 2', 1): "2",
        good[:-10]: "a damaged or cut-off file",
    }.items():
        manifest.write_bytes(text)
        with refused(rl.errors.SnapshotError, "manifest.json", got=got):
            rl.Memory.load(folder)
    manifest.write_bytes(good)
    (segment,) = folder.glob("rows-*")
    data = segment.read_bytes()
    damaged = bytearray(data)
    damaged[5000] ^= 1
    for content, got in {data[:-1]: str(len(data) - 1), bytes(damaged): None}.items():
        segment.write_bytes(content)
        with refused(rl.errors.SnapshotError, "rows-*.safetensors", got=got):
            rl.Memory.load(folder)
    segment.unlink()
    with refused(rl.errors.SnapshotError, "rows-*.safetensors", got="No such file or directory"):
        rl.Memory.load(folder)
    with refused(rl.errors.OptionError, "compress", got="'gzip'"):
        memory.save(folder, compress="gzip")
    with refused(rl.errors.OptionError, "journal", got="'yes'"):
        memory.save(folder, journal="yes")
    (tmp_path / "file").touch()
    with refused(rl.errors.OptionError, "folder"):
        memory.save(tmp_path / "file")


def test_segments_are_safetensors(tmp_path: Path) -> None:
    """Any reader of the format opens them."""
    safetensors = pytest.importorskip("safetensors.numpy")
    memory = new_memory(500)
    fill(memory, 0, 400)
    memory.save(tmp_path / "saved")
    (segment,) = (tmp_path / "saved").glob("rows-*")
    arrays = safetensors.load_file(segment)
    assert set(arrays) == {"flags", *(f"field/{column.key}" for column in checkable.SCHEMA)}
    numbers = arrays["field/number"][(arrays["flags"] & 4) == 0]
    np.testing.assert_array_equal(np.sort(numbers), np.repeat(np.arange(400), 2))
    (state,) = (tmp_path / "saved").glob("sampler-*")
    np.testing.assert_array_equal(safetensors.load_file(state)["priorities"], memory.priorities)


@pytest.mark.parametrize("kind", ["prioritized", "shuffled", "journal"])
def test_files_of_version_1_load(kind: str, tmp_path: Path) -> None:
    """Snapshots as the first version wrote them, with the batches that they drew."""
    folder = tmp_path / kind
    shutil.copytree(GOLDEN / "snapshot-1" / kind, folder)
    expected = json.loads((folder / "expected.json").read_text())
    memory = rl.Memory.load(folder)
    assert len(memory) == expected["steps"]
    for wanted in expected["batches"]:
        batch = memory.sample(4)
        assert batch.serials.tolist() == wanted["serials"]
        assert batch.lanes.tolist() == wanted["lanes"]
        assert batch.obs.tolist() == wanted["obs"]
        assert batch.next_obs.tolist() == wanted["next_obs"]
        assert batch.weights.tolist() == wanted["weights"]
