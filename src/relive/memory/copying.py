"""The files of a saved folder as byte arrays, for pickling."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from relive.errors import OptionError
from relive.messages import brief

__all__ = ["packed", "unpacked"]


def packed(save: Callable[[str], None]) -> dict[str, Any]:
    """The files that ``save`` writes to a folder, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return {
            path.relative_to(folder).as_posix(): np.frombuffer(path.read_bytes(), np.uint8).copy()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }


@contextmanager
def unpacked(files: Mapping[str, Any]) -> Iterator[Path]:
    """A temporary folder with these files."""
    if not isinstance(files, Mapping) or not all(isinstance(file, str) for file in files):
        raise OptionError("state", "be a dict of byte arrays by file name", brief(files))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for file, content in files.items():
            path = (folder / file).resolve()
            if not path.is_relative_to(folder):
                raise OptionError("state", "name files below one folder", repr(file))
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.write_bytes(np.asarray(content, np.uint8).tobytes())
            except (OSError, ValueError, TypeError, OverflowError) as error:
                raise OptionError("state", f"hold the bytes of the file {file!r}", error) from None
        yield folder
