"""Metrics of a run, read as they are added: a column of numbers for each metric."""

from __future__ import annotations

import json
import math
import os
from array import array
from pathlib import Path
from typing import Any, final

import numpy as np

from relive import run_files
from relive.types import Array

__all__ = ["Metrics", "parsed"]

_PIECE = 16 << 20  # bytes that are read at a look; the rest comes with the next
_LINE = 1 << 20  # bytes of a line; longer ones are passed over
_NUMBERS = 1 << 25  # numbers that are kept of a run
_COLUMNS = 1000


def parsed(text: bytes) -> dict[str, Any] | None:
    """A line of JSON; None if it is no table."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


@final
class Metrics:
    """The numbers of ``metrics.jsonl``; missing ones are NaN."""

    def __init__(self) -> None:
        self.columns: dict[str, array[float]] = {}
        self.last: dict[str, Any] = {}
        """The last line."""
        self._rows, self._offset, self._file = 0, 0, (0, 0)

    def column(self, name: str) -> Array:
        """A metric of every line, ``[N]``; NaN where a line has none."""
        found = np.full(self._rows, np.nan)
        known = self.columns.get(name, ())
        found[: len(known)] = known
        return found

    def read(self, folder: Path) -> None:
        """Read what was added to a run's file. A file that was replaced is read from its beginning."""
        with run_files.open_file(folder, "metrics.jsonl") as file:
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != self._file or found.st_size < self._offset:
                self.columns, self.last = {}, {}
                self._rows, self._offset, self._file = 0, 0, (found.st_dev, found.st_ino)
            file.seek(self._offset)
            piece = file.read(_PIECE)
        whole, newline, rest = piece.rpartition(b"\n")
        if not newline and len(rest) < _LINE:  # a line that is still being written
            return
        self._offset += len(piece) if not newline else len(whole) + 1
        for text in whole.split(b"\n"):
            line = parsed(text) if len(text) < _LINE else None
            if line is not None and self._rows * max(len(self.columns), 1) < _NUMBERS:
                self._add(line)

    def _add(self, line: dict[str, Any]) -> None:
        self.last = line
        for name, value in line.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
                continue
            column = self.columns.get(name)
            if column is None:
                if len(self.columns) >= _COLUMNS:
                    continue
                column = self.columns[name] = array("d")
            column.extend([math.nan] * (self._rows - len(column)))
            column.append(value)
        self._rows += 1
