"""Episodes in one npz file: every column over all steps, final observations, flags, and the schema as JSON."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from relive.errors import DatasetError, SchemaError
from relive.memory.datasets import d4rl
from relive.memory.datasets.episodes import Episode
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
    temporary = path.with_name(f".{path.name}.tmp.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)
    return len(flags)


def read(path: Path, infos: tuple[str, ...], float64: bool) -> tuple[Schema, Iterator[Episode], int]:
    """The schema, the episodes, and the rows they need. Files with D4RL's names are read too."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(str(path), "be an npz file of arrays", error) from None
    if "schema" not in arrays:
        return d4rl.from_arrays(path, arrays, infos, float64=float64)
    try:
        schema = from_plain(json.loads(arrays["schema"].tobytes()))
        lengths = arrays["lengths"].tolist()
        ends = np.cumsum([0, *lengths])
        for column in schema:
            if arrays[f"field/{column.key}"].shape != (ends[-1], *column.shape):
                raise ValueError(f"{column.key} has shape {arrays[f'field/{column.key}'].shape}")
            if _has_final(schema, column.key) and arrays[f"final/{column.key}"].shape != (len(lengths), *column.shape):
                raise ValueError(f"final {column.key} has shape {arrays[f'final/{column.key}'].shape}")
        flags = list(zip(arrays["terminated"].tolist(), arrays["truncated"].tolist(), strict=True))
        if len(flags) != len(lengths):
            raise ValueError(f"{len(lengths)} lengths but {len(flags)} flags")
    except (KeyError, ValueError, SchemaError, RecursionError, TypeError) as error:
        raise DatasetError(str(path), "hold episodes as relive writes them", error) from None

    def episodes() -> Iterator[Episode]:
        for at, (terminated, truncated) in enumerate(flags):
            part = slice(int(ends[at]), int(ends[at + 1]))
            columns = {}
            for column in schema:
                columns[column.key] = arrays[f"field/{column.key}"][part]
                if _has_final(schema, column.key):
                    final = arrays[f"final/{column.key}"][at : at + 1]
                    columns[column.key] = np.concatenate([columns[column.key], final])
            yield Episode(columns, terminated, truncated)

    return schema, episodes(), int(ends[-1]) + len(lengths)


def _has_final(schema: Schema, key: str) -> bool:
    return schema[key].role == "observed" and not schema.loose
