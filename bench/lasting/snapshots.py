"""Seconds and GB/s of saving and loading a memory against torch.save, np.savez and pickle of a plain buffer.

A plain buffer is a dict of arrays with a next observation beside every observation, as most code has it. Peers are
measured as they are and with an fsync after them, since a save that is not on disk is no save yet. Loads are timed the
second time in a row, when the system has the files and free memory at hand. Every load ends with all arrays in memory
of their own.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import relive as rl


@dataclass
class Load:
    """What is kept: fields of a row, and how many rows."""

    title: str
    obs: rl.Field
    action: rl.Field
    rows: int


def loads(quick: bool) -> list[Load]:
    scale = 10 if quick else 1
    return [
        Load("vectors: 1M rows of obs 17, act 6, float32", rl.Field((17,)), rl.Field((6,)), 1_000_000 // scale),
        Load("frames: 50k of 84x84 uint8", rl.Field((84, 84), "uint8"), rl.Field((), "uint8"), 50_000 // scale),
    ]


def steps(load: Load, count: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)

    def values(field: rl.Field) -> Any:
        shape = (count, *field.shape)
        if field.dtype == np.uint8:
            return rng.integers(0, 255, shape, np.uint8)
        return rng.standard_normal(shape, np.float32)

    flags = np.arange(count) % 500 == 499
    return {
        "obs": values(load.obs),
        "action": values(load.action),
        "reward": rng.standard_normal(count, np.float32),
        "terminated": flags,
        "truncated": np.zeros(count, bool),
    }


def filled(load: Load, sampler: rl.Sampler) -> rl.Memory:
    memory = rl.Memory(rl.Schema(obs=load.obs, action=load.action), load.rows, sampler=sampler, seed=0)
    for seed in range(10):
        memory.extend(**steps(load, load.rows // 10, seed))
    return memory


def plain(load: Load) -> dict[str, Any]:
    data = steps(load, load.rows, 0)
    data["next_obs"] = np.roll(data["obs"], -1, 0)
    return data


def fsync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def contenders(load: Load, folder: Path) -> dict[str, tuple[Callable[[], None], Callable[[], Any], Path]]:
    """Name to save, load and where."""
    memory = filled(load, rl.Uniform())
    buffer = plain(load)
    tensors = {name: torch.from_numpy(array) for name, array in buffer.items()}
    ours, zipped, torched, pickled = folder / "ours", folder / "a.npz", folder / "a.pt", folder / "a.pickle"

    def save_ours() -> None:
        shutil.rmtree(ours, ignore_errors=True)
        memory.save(ours)

    def save_pickle() -> None:
        with pickled.open("wb") as file:
            pickle.dump(buffer, file, protocol=5)

    def load_npz() -> Any:
        with np.load(zipped) as file:
            return {name: file[name] for name in file.files}

    def load_pickle() -> Any:
        with pickled.open("rb") as file:
            return pickle.load(file)

    return {
        "relive": (save_ours, lambda: rl.Memory.load(ours), ours),
        "torch.save": (lambda: torch.save(tensors, torched), lambda: torch.load(torched), torched),
        "np.savez": (lambda: np.savez(zipped, **buffer), load_npz, zipped),
        "pickle": (save_pickle, load_pickle, pickled),
    }


def size(path: Path) -> int:
    return sum(part.stat().st_size for part in path.iterdir()) if path.is_dir() else path.stat().st_size


def timed(call: Callable[[], Any]) -> float:
    os.sync()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(load: Load, rounds: int) -> list[str]:
    with tempfile.TemporaryDirectory(dir=".") as name:
        found = contenders(load, Path(name))
        times: dict[str, dict[str, list[float]]] = {label: {"save": [], "synced": [], "load": []} for label in found}
        for _ in range(rounds):
            for label, (save, read, path) in found.items():
                if label == "relive":
                    seconds = timed(save)  # it syncs anyway
                    times[label]["synced"].append(seconds)
                else:
                    times[label]["save"].append(timed(save))
                    times[label]["synced"].append(timed(lambda save=save, path=path: (save(), fsync(path))))
                read()  # so that the files, and memory for what is in them, are at hand
                times[label]["load"].append(timed(read))
        lines = [
            f"| {load.title} | MB | save, s | GB/s | save and fsync, s | GB/s | load, s | GB/s |",
            "|---" * 8 + "|",
        ]
        for label, row in times.items():
            total = size(found[label][2])
            cells = []
            for key in ("save", "synced", "load"):
                if row[key]:
                    cells += [f"{median(row[key]):.3f}", f"{total / median(row[key]) / 1e9:.2f}"]
                else:
                    cells += ["-", "-"]
            lines.append(f"| {label} | {total / 1e6:.0f} | " + " | ".join(cells) + " |")
    return lines


def incremental(load: Load, sampler: rl.Sampler, rounds: int) -> list[str]:
    """The first save of a memory, one with a tenth of new rows, one with nothing new."""
    memory = filled(load, sampler)
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name) / "saved"
        times: dict[str, list[float]] = {"first": [], "a tenth is new": [], "nothing is new": []}
        written: dict[str, int] = {}
        for _ in range(rounds):
            shutil.rmtree(folder, ignore_errors=True)
            for key, row in times.items():
                if key == "a tenth is new":
                    memory.extend(**steps(load, load.rows // 10, 99))
                before = set(folder.iterdir()) if folder.exists() else set()
                row.append(timed(lambda: memory.save(folder)))
                written[key] = sum(path.stat().st_size for path in set(folder.iterdir()) - before)
    first = median(times["first"])
    lines = [
        f"| {load.title}, {type(sampler).__name__} | MB written | of the first | s | of the first |",
        "|---" * 5 + "|",
    ]
    for key, row in times.items():
        cells = f"{written[key] / 1e6:.1f} | {written[key] / written['first']:.2f}"
        lines.append(f"| {key} | {cells} | {median(row):.3f} | {median(row) / first:.2f} |")
    return lines


def run(*, quick: bool) -> str:
    """All tables, as Markdown."""
    rounds = 3 if quick else 7
    parts = []
    for load in loads(quick):
        parts.append("\n".join(measure(load, rounds)))
    for load in loads(quick):
        parts += ["\n".join(incremental(load, sampler, rounds)) for sampler in (rl.Uniform(), rl.Prioritized())]
    return "\n\n".join(parts)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(run(quick=parser.parse_args().quick))
