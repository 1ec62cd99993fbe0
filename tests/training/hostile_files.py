"""Files of every kind that the library reads, changed and read again, by a process that may do nothing else.

It has little memory, little time and few descriptors.

``python hostile_files.py KIND COUNT FOLDER`` prints how many were refused.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import test_hostile_runs
from gymnasium import spaces

import relive as rl
import test_fuzz
import test_hostile_datasets
import test_hostile_notes
from address_space import limited
from relive.compat.xuance.v1_1.memory_tools import DummyOffPolicyBuffer
from relive.errors import ReliveError
from relive.memory.snapshot.manifest import digest
from relive.training.config_file import read_config

ACTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.find_class", "socket.connect"}
"""What nobody asked for who reads a file."""
WRITES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
WRITES |= {"shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree"}

Change = Callable[[Path, int], None]
Look = Callable[[Path], Any]


def guard(folder: Path) -> list[str]:
    """Note whatever is run, sent, written or removed outside a folder from now on."""
    wrong: list[str] = []

    def inside(path: Any, below: Any = -1) -> bool:
        if isinstance(path, int):
            return True
        where = Path(os.fsdecode(path))
        if not where.is_absolute() and isinstance(below, int) and below >= 0:
            where = Path(os.readlink(f"/proc/self/fd/{below}")) / where
        return where.absolute().is_relative_to(folder) or str(where) == "/dev/null"

    def watch(event: str, given: tuple[Any, ...]) -> None:
        if event in ACTS:
            wrong.append(f"{event} {given}")
        elif event in WRITES:
            paths = [part for part in given if isinstance(part, (str, bytes, os.PathLike))]
            folders = [part for part in given if isinstance(part, int) and part >= 0]
            if not all(inside(path, folders[0] if folders else -1) for path in paths):
                wrong.append(f"{event} {given}")
        elif event == "open":
            path, mode, flags = given
            writes = any(letter in (mode or "") for letter in "wax+") or (flags or 0) & (
                os.O_WRONLY | os.O_RDWR | os.O_CREAT
            )
            if writes and not isinstance(path, int) and Path(os.fsdecode(path)).is_absolute() and not inside(path):
                wrong.append(f"{event} {given}")

    sys.addaudithook(watch)
    return wrong


def runs(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        test_hostile_runs.change(folder, np.random.default_rng(number))

    def look(folder: Path) -> None:
        for error in test_hostile_runs.look_at(folder, folder.parent / "plot.png"):
            raise error

    return change, look


def configs(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        source, path = np.random.default_rng(number), folder / "config.toml"
        while path.read_bytes() == (begun / "config.toml").read_bytes():
            test_hostile_runs.change_config(path, source)

    return change, lambda folder: read_config(folder / "config.toml")


def snapshots(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        source = random.Random(number)
        ways = [test_fuzz.hostile_manifest, test_fuzz.hostile_header] if number % 2 else test_fuzz.DAMAGES
        source.choice(ways)(folder, source)

    return change, lambda folder: rl.Memory.load(folder).sample(16)


def rows(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        path, source = folder / "rows", random.Random(number)
        data = bytearray(path.read_bytes())
        if number % 2:
            size = int.from_bytes(data[20:24], "little")
            text = json.dumps(test_fuzz.hostile(json.loads(data[8192 : 8192 + size]), source)).encode()
            data[8192 : 8192 + max(len(text), size)] = text.ljust(max(len(text), size), b"\0")
            data[20:24], data[24:32] = len(text).to_bytes(4, "little"), int(digest(text), 16).to_bytes(8, "little")
        else:
            for _ in range(source.choice([1, 3])):
                data[source.choice([source.randrange(40), source.randrange(4096, 9000)])] ^= 1 << source.randrange(8)
        path.write_bytes(data)

    def look(folder: Path) -> None:
        with rl.Memory.open(rl.Mapped(folder / "rows")) as memory:
            memory.sample(4)

    return change, look


def npz(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        source, path = np.random.default_rng(number), folder / "set.npz"
        data = path.read_bytes()
        again = test_hostile_datasets.npz_again(data, source, folder) if number % 2 else None
        path.write_bytes(test_hostile_datasets.mutations(data, source) if again is None else again)

    return change, lambda folder: rl.Memory.from_dataset(folder / "set.npz")


def change_hdf5(path: Path, source: np.random.Generator) -> None:
    """A dataset or an attribute replaced by another, in a file that is otherwise whole."""
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        name = str(source.choice(names))
        if source.random() < 0.3:
            odd = [-1, 2**62, 1.5, float("nan"), "x", b"\xff", np.zeros(3), [[1]], "a" * 5000]
            file[name].attrs[str(source.choice([*file[name].attrs, "total_steps"]))] = odd[source.integers(0, len(odd))]
        elif isinstance(file[name], h5py.Dataset):
            values = file[name][()]
            ways: list[Callable[[Any], Any]] = [
                lambda a: a[:-1], lambda a: a[None], lambda a: a.astype("f8") * np.nan, lambda a: np.zeros(0),
                lambda a: np.bytes_(b"x"), lambda a: h5py.Empty("f"), lambda a: a.astype("f8") + 0.5,
            ]  # fmt: skip
            del file[name]
            file[name] = ways[source.integers(0, len(ways))](np.atleast_1d(values))
        else:
            del file[name]


def hdf5(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        source, path = np.random.default_rng(number), folder / "set.hdf5"
        if number % 2:
            change_hdf5(path, source)
        else:
            path.write_bytes(test_hostile_datasets.mutations(path.read_bytes(), source))

    return change, lambda folder: rl.Memory.from_dataset(folder / "set.hdf5")


def minari(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        source, data = np.random.default_rng(number), folder / "set" / "data"
        path = data / str(source.choice(["main_data.hdf5", "metadata.json"]))
        if number % 2 and path.suffix == ".hdf5":
            change_hdf5(path, source)
        elif number % 2:
            path.write_text(json.dumps(test_hostile_runs.changed_value(json.loads(path.read_text()), source)))
        else:
            path.write_bytes(test_hostile_datasets.mutations(path.read_bytes(), source))

    return change, lambda folder: rl.Memory.from_dataset(folder / "set")


def notes(begun: Path) -> tuple[Change, Look]:
    def change(folder: Path, number: int) -> None:
        source, path = np.random.default_rng(number), folder / "buffer.json"
        if number % 2:
            inside = test_hostile_runs.changed_value(json.loads(json.loads(path.read_text())["buffer"]), source)
            text = json.dumps(inside)
            path.write_text(json.dumps({"buffer": text, "xxh64": digest(text.encode())}))
        else:
            path.write_bytes(test_hostile_runs.changed_bytes(path.read_bytes(), source))

    def look(folder: Path) -> None:
        buffer = test_hostile_notes.make()
        buffer.load(folder)
        buffer.sample()

    return change, look


KINDS = {
    "runs": runs, "configs": configs, "snapshots": snapshots, "rows": rows, "npz": npz, "hdf5": hdf5, "minari": minari,
    "notes": notes,
}  # fmt: skip


def begin(kind: str, folder: Path) -> None:
    """A whole folder of a kind."""
    folder.mkdir()
    if kind in ("runs", "configs"):
        test_hostile_runs.train(folder)
    elif kind == "snapshots":
        test_fuzz.make(folder, "journal")
    elif kind == "rows":
        with test_fuzz.new_memory(60, storage=rl.Mapped(folder / "rows")) as memory:
            test_fuzz.fill(memory, 0, 90)
    elif kind == "notes":
        buffer = DummyOffPolicyBuffer(spaces.Box(-1, 1, (3,)), spaces.Discrete(2), None, 2, 10, 4)
        for _ in range(5):
            buffer.store(*test_hostile_notes.STEP)
        buffer.save(folder)
    else:
        test_hostile_datasets.write_sets(folder)


def main(kind: str, count: int, folder: Path) -> None:
    begun, copy, refused = folder / "begun", folder / "copies" / "copy", 0
    begin(kind, begun)
    change, look = KINDS[kind](begun)
    look(begun)  # which imports whatever is needed
    wrong, before = guard(folder), set(os.listdir(folder))
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    descriptors = len(os.listdir("/proc/self/fd"))
    for number in range(count):
        faulthandler.dump_traceback_later(60, exit=True)
        shutil.copytree(begun, copy)
        change(copy, number)
        try:
            look(copy)
        except ReliveError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{kind} {number}") from error
        shutil.rmtree(folder / "copies")
        assert not wrong, (kind, number, wrong)
    faulthandler.cancel_dump_traceback_later()
    assert set(os.listdir(folder)) == before
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
    print(refused)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with limited(2 << 30):
        main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).resolve())
