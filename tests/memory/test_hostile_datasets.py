"""Datasets from strangers: wrong lengths, files that claim more than they hold, and bytes that were changed."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import relive as rl
from address_space import limited
from relive.errors import DatasetError, ReliveError

KINDS = ("set.npz", "set.hdf5", "set")


def write_sets(folder: Path) -> None:
    """The same four episodes of 12, 4, 4 and 5 steps in each format."""
    memory = rl.Memory(rl.Schema(obs=rl.Field((3,)), action=rl.Field((), "uint8")), 100, seed=0)
    for length in (12, 4, 4, 5):
        for t in range(length):
            memory.append(obs=[t] * 3, action=t, reward=t, terminated=t == length - 1, truncated=False)
    for name in KINDS:
        memory.export(folder / name)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_sets(tmp_path)
    return tmp_path


@pytest.fixture
def _little_memory() -> Iterator[None]:
    with limited(2 << 30):
        yield


def change_npz(path: Path, **arrays: Any) -> None:
    with np.load(path) as file:
        kept = {key: file[key] for key in file.files}
    np.savez(path, **{**kept, **arrays})


def refused(path: Path) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        rl.Memory.from_dataset(path)
    return caught.value


@pytest.mark.parametrize(
    "lengths",
    [
        [-1, 5, 8, 13],
        [12, 4, 4, 4],
        [12, 4, 4, 6],
        [0, 16, 4, 5],
        [12.5, 3.5, 4, 5],
        [2**63 - 1, 2**63 - 1, 4, 23],
        [25],
        [[12, 4], [4, 5]],
        [np.nan, 4, 4, 5],
    ],
)
def test_lengths_that_are_not_the_episodes(files: Path, lengths: list[Any]) -> None:
    """Lengths of -1, 5 and 8 once loaded as 13 of 12 steps, with duplicates."""
    assert len(rl.Memory.from_dataset(files / "set.npz")) == 25
    change_npz(files / "set.npz", lengths=np.array(lengths))
    refused(files / "set.npz")


@pytest.mark.parametrize("total", [1.5, -1, 3, 5, 0, True, "4", None, 2**63])
def test_totals_that_are_not_the_episodes(files: Path, total: Any) -> None:
    """Fewer episodes were once loaded, and nothing was said."""
    path = files / "set" / "data" / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "total_episodes": total}))
    refused(files / "set")


@pytest.mark.usefixtures("_little_memory")
def test_an_npz_file_that_unfolds_to_much_more(files: Path) -> None:
    path = files / "set.npz"
    np.savez_compressed(path, obs=np.zeros(1 << 30, np.uint8))
    assert path.stat().st_size < 2 << 20
    assert "unfold" in refused(path).problem.rule


@pytest.mark.usefixtures("_little_memory")
def test_an_array_that_claims_more_than_its_file_holds(files: Path) -> None:
    path = files / "set.npz"
    with zipfile.ZipFile(path, "w") as archive:
        header = np.lib.format.magic(1, 0)
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
        archive.writestr("obs.npy", header + len(text).to_bytes(2, "little") + text + b"\0" * 64)
    refused(path)


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("chunks", [None, (1 << 16,)])
def test_an_hdf5_file_that_claims_more_than_it_holds(files: Path, chunks: Any) -> None:
    with h5py.File(files / "set.hdf5", "a") as file:
        del file["rewards"]
        file.create_dataset("rewards", (25 << 30,), "f4", chunks=chunks, fillvalue=0)
    assert "unfold" in refused(files / "set.hdf5").problem.rule
    with h5py.File(files / "set" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1/terminations"]
        file.create_dataset("episode_1/terminations", (25 << 30,), bool, chunks=chunks)
    assert "unfold" in refused(files / "set").problem.rule


@pytest.mark.parametrize("how", ["external", "virtual", "external link", "link to a pipe", "soft link"])
def test_hdf5_files_hold_their_own_bytes(files: Path, how: str) -> None:
    """External storage once read a system file into a memory."""
    (files / "secret").write_bytes(b"s" * 400)
    with h5py.File(files / "other.hdf5", "w") as file:
        file["rewards"] = np.full(25, 7.0)
    for path, place in ((files / "set.hdf5", ""), (files / "set" / "data" / "main_data.hdf5", "episode_0/")):
        name, count = f"{place}rewards", 12 if place else 25
        with h5py.File(path, "a") as file:
            del file[name]
            if how == "external":
                file.create_dataset(name, (count,), "f4", external=[(str(files / "secret"), 0, 4 * count)])
            elif how == "virtual":
                layout = h5py.VirtualLayout((count,), "f8")
                layout[:] = h5py.VirtualSource(str(files / "other.hdf5"), "rewards", (25,))[:count]
                file.create_virtual_dataset(name, layout)
            elif how == "link to a pipe":
                os.mkfifo(path.with_name("pipe"))
                file[name] = h5py.ExternalLink(str(path.with_name("pipe")), "rewards")
            elif how == "external link":
                file[name] = h5py.ExternalLink(str(files / "other.hdf5"), "rewards")
            else:
                file[name] = h5py.SoftLink("/elsewhere")
    refused(files / "set.hdf5")
    refused(files / "set")


def test_groups_within_themselves(files: Path) -> None:
    path = files / "set" / "data" / "metadata.json"
    about = json.loads(path.read_text())
    del about["relive"]
    path.write_text(json.dumps(about))
    with h5py.File(files / "set" / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/infos/again"] = file["episode_0"]
    refused(files / "set")


@pytest.mark.parametrize("name", ["set.npz", "set.hdf5", "set/data/main_data.hdf5", "set/data/metadata.json"])
def test_pipes_are_not_waited_for(files: Path, name: str) -> None:
    (files / name).unlink()
    os.mkfifo(files / name)
    refused(files / "/".join(Path(name).parts[:1]))


@pytest.mark.parametrize("name", KINDS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    files: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    memory = rl.Memory.from_dataset(files / name)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    monkeypatch.setattr(h5py.Group, "create_dataset", full)
    with pytest.raises(OSError, match="No space left"):
        memory.export(files / name)
    assert {path: path.read_bytes() for path in files.rglob("*") if path.is_file()} == before


def mutations(data: bytes, random: np.random.Generator) -> bytes:
    """Some bytes changed, removed or added, where headers are more often than elsewhere."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 6) if changed else 0):
        at = int(
            random.integers(0, len(changed)) if random.random() < 0.5 else random.integers(0, min(len(changed), 2048))
        )
        kind = random.integers(0, 4)
        if kind == 0:
            changed[at] ^= 1 << int(random.integers(0, 8))
        elif kind == 1:
            changed[at : at + 8] = random.bytes(8)
        elif kind == 2:
            del changed[at : at + int(random.integers(1, 64))]
            changed = changed or bytearray(1)
        else:
            changed[at:at] = random.bytes(int(random.integers(1, 16)))
    return bytes(changed)


def npz_again(data: bytes, random: np.random.Generator, folder: Path) -> bytes:
    """Arrays changed before they are packed again, so that checksums are right."""
    path = folder / "again.npz"
    path.write_bytes(data)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    key = str(random.choice(list(arrays)))
    ways: list[Callable[[Any], Any]] = [
        lambda a: a[:-1],
        lambda a: a[None],
        lambda a: a.astype(random.choice(["f2", "f8", "i8", "u1", "?", "c8", "S3"])),
        lambda a: np.frombuffer(mutations(a.tobytes() + b"x", random), np.uint8),
        lambda a: np.zeros(0),
    ]
    with np.errstate(all="ignore"):
        arrays[key] = ways[random.integers(0, len(ways))](arrays[key])
    if random.random() < 0.2:
        del arrays[key]
    np.savez(path, **arrays)
    return path.read_bytes()


def check_mutation(path: Path, whole: Path) -> bool:
    """Load it; whether it was refused. Whatever else happens is a fault."""
    try:
        memory = rl.Memory.from_dataset(whole)
    except ReliveError:
        return True
    assert len(memory) <= 10_000
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("name", ["set.npz", "set.hdf5", "set/data/main_data.hdf5", "set/data/metadata.json"])
@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_changed_files_are_read_or_refused(files: Path, name: str, count: int) -> None:
    random = np.random.default_rng(len(name))
    data, path = (files / name).read_bytes(), files / name
    refusals = 0
    for number in range(count):
        structured = name.endswith(".npz") and number % 2
        path.write_bytes(npz_again(data, random, files) if structured else mutations(data, random))
        refusals += check_mutation(path, files / Path(name).parts[0])
    assert refusals > count // 10
