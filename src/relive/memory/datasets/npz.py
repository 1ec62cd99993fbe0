"""Episodes in one npz file: every column over all steps, final observations, flags, and the schema as JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from relive.errors import DatasetError
from relive.memory.datasets import d4rl
from relive.memory.datasets.episodes import Episode
from relive.memory.datasets.limits import npz_arrays, whole_file
from relive.schema import Schema
from relive.schema.describe import from_plain, to_plain
from relive.types import Array

__all__ = ["read", "write"]


def write(path: Path, schema: Schema, episodes: Iterable[Episode]) -> int:
    """Write episodes; returns how many."""
    steps: dict[str, list[Array]] = {column.key: [] for column in schema}
    finals: dict[str, list[Array]] = {column.key: [] for column in schema if _has_final(schema, column.key)}
    flags: list[tuple[int, bool, bool]] = []
    for episode in episodes:
        count = episode.steps
        for key, values in episode.columns.items():
            steps[key].append(values[:count])
            if key in finals:
                finals[key].append(values[count : count + 1])
        flags.append((count, episode.terminated, episode.truncated))
    arrays: dict[str, Any] = {"schema": np.frombuffer(json.dumps(to_plain(schema)).encode(), np.uint8)}
    for prefix, parts in (("field", steps), ("final", finals)):
        for key, found in parts.items():
            column = schema[key]
            arrays[f"{prefix}/{key}"] = np.concatenate([np.empty((0, *column.shape), column.dtype), *found])
    table = np.array(flags, np.int64).reshape(-1, 3)
    arrays |= {"lengths": table[:, 0], "terminated": table[:, 1] != 0, "truncated": table[:, 2] != 0}
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)
    return len(flags)


def read(path: Path, infos: tuple[str, ...], float64: bool) -> tuple[Schema, Iterator[Episode], int]:
    """The schema, the episodes, and the rows they need. Files with D4RL's names are read too."""
    arrays = npz_arrays(path)
    if "schema" not in arrays:
        return d4rl.from_arrays(path, arrays, infos, float64=float64)
    schema = from_plain(json.loads(arrays["schema"].tobytes()))
    lengths, flags = arrays["lengths"], [arrays["terminated"], arrays["truncated"]]
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths.size and int(lengths.min()) < 1):
        raise DatasetError(
            str(path), "have the steps of each episode as lengths", f"{lengths.dtype}{list(lengths.shape)}"
        )
    if any(flag.shape != lengths.shape or flag.dtype != bool for flag in flags):
        raise DatasetError(str(path), "have two flags for each episode", [list(flag.shape) for flag in flags])
    ends = [0, *itertools.accumulate(lengths.tolist())]  # Python's numbers do not overflow
    for column in schema:
        for prefix, count in (("field", ends[-1]), ("final", len(lengths))):
            name, expected = f"{prefix}/{column.key}", [count, *column.shape]
            if prefix == "final" and not _has_final(schema, column.key):
                continue
            if list(arrays[name].shape) != expected or arrays[name].dtype != column.dtype:
                got = f"{arrays[name].dtype}{list(arrays[name].shape)}"
                raise DatasetError(str(path), f"have {name} as {column.dtype}{expected}", got)

    def episodes() -> Iterator[Episode]:
        for at, (terminated, truncated) in enumerate(zip(*(flag.tolist() for flag in flags), strict=True)):
            part = slice(ends[at], ends[at + 1])
            columns = {}
            for column in schema:
                columns[column.key] = arrays[f"field/{column.key}"][part]
                if _has_final(schema, column.key):
                    final = arrays[f"final/{column.key}"][at : at + 1]
                    columns[column.key] = np.concatenate([columns[column.key], final])
            yield Episode(columns, terminated, truncated)

    return schema, episodes(), ends[-1] + len(lengths)


def _has_final(schema: Schema, key: str) -> bool:
    return schema[key].role == "observed" and not schema.loose
