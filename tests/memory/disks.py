"""A disk that remembers what it was asked to do, and what would be left of it after a crash at any moment.

The model is POSIX's: bytes are safe once their file was synced, names once their folder was. Before that, anything may
or may not have reached the disk, in any order.
"""

from __future__ import annotations

import importlib
import os
import random
import threading
from pathlib import Path
from typing import Any
from unittest import mock

from relive.memory.snapshot.disk import SystemDisk


class CrashDisk:
    """Works on a real folder; ``crashes`` yields what it may look like after losing power at the last call."""

    def __init__(self, folder: Path, on_call: Any = None) -> None:
        self.folder = folder
        self.real = SystemDisk()
        self.on_call = on_call or (lambda: None)
        self.safe_names: dict[str, int] = {}  # name -> inode, on disk
        self.pending: list[tuple[str, str, int]] = []  # ("link" or "unlink", name, inode), not yet
        self.safe_bytes: dict[int, bytes] = {}
        self.open: dict[int, int] = {}
        self.names: dict[str, int] = {}
        self.calls = 0

    def adopt(self) -> None:
        """Take what is in the folder as safe."""
        for path in self.folder.iterdir():
            inode = path.stat().st_ino
            self.names[path.name] = self.safe_names[path.name] = inode
            self.safe_bytes[inode] = path.read_bytes()

    def called(self) -> None:
        self.calls += 1
        self.on_call()

    def create(self, path: Path) -> int:
        file = self.real.create(path)
        inode = os.fstat(file).st_ino
        self.open[file] = inode
        self.names[path.name] = inode
        self.safe_bytes[inode] = b""
        self.pending.append(("link", path.name, inode))
        self.called()
        return file

    def write(self, file: int, data: Any) -> None:
        self.real.write(file, data)
        self.called()

    def hurry(self, file: int) -> None:
        self.called()

    def sync(self, file: int) -> None:
        self.called()  # before it takes effect: a crash during the call
        self.real.sync(file)
        inode = os.fstat(file).st_ino
        name = next(name for name, known in self.names.items() if known == inode)
        self.safe_bytes[inode] = (self.folder / name).read_bytes()
        self.called()

    def rename(self, old: Path, new: Path) -> None:
        inode = self.names.pop(old.name)
        self.real.rename(old, new)
        self.names[new.name] = inode
        self.pending += [("link", new.name, inode), ("unlink", old.name, inode)]
        self.called()

    def remove(self, path: Path) -> None:
        if path.name in self.names:
            self.pending.append(("unlink", path.name, self.names.pop(path.name)))
        self.real.remove(path)
        self.called()

    def sync_folder(self, folder: Path) -> None:
        self.called()
        self.real.sync_folder(folder)
        if folder == self.folder:
            self.safe_names = dict(self.names)
            self.pending.clear()
        self.called()

    def crashes(self, random_source: random.Random, count: int) -> list[dict[str, bytes]]:
        """Folders that a crash now may leave: nothing that was not safe, everything, or a part of it."""
        found = []
        for which in range(count):
            share = (0.0, 1.0, 0.5)[which % 3]
            names = dict(self.safe_names)
            for kind, name, inode in self.pending:
                if random_source.random() >= share:
                    continue
                if kind == "link":
                    names[name] = inode
                elif names.get(name) == inode:
                    del names[name]
            files = {}
            for name, inode in names.items():
                safe = self.safe_bytes[inode]
                now = next((n for n, known in self.names.items() if known == inode), None)
                full = (self.folder / now).read_bytes() if now is not None else safe
                files[name] = full if full == safe else random_source.choice(torn(safe, full, random_source))
            found.append(files)
        return found


def torn(safe: bytes, full: bytes, random_source: random.Random) -> list[bytes]:
    """What may be on disk of a file that was changed since it was last safe."""
    # Bytes that were safe and have not changed stay.
    least = next(
        (i for i, pair in enumerate(zip(safe, full, strict=False)) if pair[0] != pair[1]), min(len(safe), len(full))
    )
    at = random_source.randint(least, len(full))
    rest = len(full) - at
    return [safe, full[:at], full[:at] + bytes(rest), full[:at] + random_source.randbytes(rest)]


def save_on(memory: Any, folder: Path, disk: Any, journal: str | None = None) -> None:
    """``memory.save`` by way of another disk; what other threads save meanwhile goes to the system's."""
    mine = threading.get_ident()
    module = importlib.import_module("relive.memory.memory")

    def choose() -> Any:
        return disk if threading.get_ident() == mine else SystemDisk()

    with mock.patch.object(module, "SystemDisk", choose):
        memory.save(folder, journal=journal)
