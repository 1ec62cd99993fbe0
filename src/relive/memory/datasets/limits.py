"""Files of datasets, which may come from strangers: sizes are checked before anything is allocated."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np

from relive.errors import DatasetError
from relive.types import Array

__all__ = ["Budget", "check_file", "hdf5_dataset", "hdf5_group", "npz_arrays", "whole_file"]

_FREE, _RATIO = 16 << 20, 100  # bytes that any file may unfold to, and what compression may gain beyond that
_DEEPEST = 32  # groups within groups


@final
class Budget:
    """Bytes that a file may unfold to: a hundred times its size, and 16 MiB."""

    def __init__(self, path: Path) -> None:
        self._path, self._most = path, _FREE + _RATIO * path.stat().st_size
        self._spent = 0

    def spend(self, name: str, nbytes: int) -> None:
        """Count bytes that are about to be read.

        Raises:
            DatasetError: If they are more than the file can mean.
        """
        self._spent += nbytes
        if self._spent > self._most:
            remedy = "If it is yours, write it again without compression."
            rule = f"unfold to at most {self._most} bytes ({_RATIO} times its size)"
            raise DatasetError(str(self._path), rule, f"{self._spent} with {name}", remedy)


def check_file(path: Path) -> None:
    """Refuse what is no ordinary file: a pipe would be waited for, and a device has no end."""
    if not path.is_file():
        raise DatasetError(str(path), "be a file", "a folder, a pipe or a device" if path.exists() else "nothing")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside a file, which replaces the file in the end, or is removed if writing fails."""
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def npz_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an npz file."""
    check_file(path)
    budget = Budget(path)
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            budget.spend(info.filename, info.file_size)
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                read_header = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }[version]
                shape, _, dtype = read_header(member)
                if dtype.hasobject or math.prod(shape) * dtype.itemsize + member.tell() != info.file_size:
                    raise DatasetError(str(path), f"hold {info.filename} whole", f"{dtype}{list(shape)}")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def hdf5_group(group: Any, name: str) -> Any:
    """What an HDF5 group holds at a path; links to other places and files are not followed."""
    import h5py

    parts = name.split("/")
    if len(parts) > _DEEPEST:
        raise DatasetError(name, f"lie at most {_DEEPEST} groups deep", len(parts))
    for part in parts:
        if not isinstance(group, h5py.Group):
            raise KeyError(name)
        links = group.id.links  # of h5py's own ways to look, all follow links, and one may lead to a pipe
        if not links.exists(part.encode()):
            raise KeyError(name)
        if links.get_info(part.encode()).type != h5py.h5l.TYPE_HARD:
            raise DatasetError(name, "lie in the file itself", "a link", "Links are not followed.")
        group = group[part]
    return group


def hdf5_dataset(group: Any, name: str, budget: Budget) -> Any:
    """A dataset of numbers in an HDF5 group, whose bytes are in the file itself."""
    import h5py

    found = hdf5_group(group, name)
    if not isinstance(found, h5py.Dataset):
        raise DatasetError(name, "be a dataset", type(found).__name__)
    if found.external or found.is_virtual:
        raise DatasetError(name, "lie in the file itself", "a dataset stored elsewhere", "Copy it into the file.")
    if found.shape is None or found.dtype.hasobject:
        raise DatasetError(name, "hold numbers", str(found.dtype))
    budget.spend(name, math.prod(found.shape) * found.dtype.itemsize)
    return found
