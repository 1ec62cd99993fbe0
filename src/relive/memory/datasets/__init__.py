"""Dataset files: Minari, D4RL and npz (docs/datasets.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from relive.errors import DatasetError, OptionError, ReliveError
from relive.memory.datasets import d4rl, minari, npz
from relive.memory.datasets.episodes import Episode, read_episodes, write_episode
from relive.schema import Schema

__all__ = ["Episode", "read_dataset", "read_episodes", "write_dataset", "write_episode"]

_Writer: TypeAlias = Callable[[Path, Schema, Iterable[Episode]], int]
_Reader: TypeAlias = Callable[[Path, "tuple[str, ...]", bool], "tuple[Schema, Iterator[Episode], int]"]

_WRITERS: dict[str, _Writer] = {"minari": minari.write, "d4rl": d4rl.write, "npz": npz.write}
_READERS: dict[str, _Reader] = {"minari": minari.read, "d4rl": d4rl.read, "npz": npz.read}


def write_dataset(path: Path, kind: str | None, schema: Schema, episodes: Iterable[Episode]) -> int:
    """Write episodes to a file or folder; returns how many."""
    if kind is None:
        kind = {".npz": "npz", ".hdf5": "d4rl", ".h5": "d4rl"}.get(path.suffix, "minari")
    return _WRITERS[_known(kind)](path, schema, episodes)


def read_dataset(
    path: Path, kind: str | None, infos: tuple[str, ...], *, float64: bool
) -> tuple[Schema, Iterator[Episode], int]:
    """The schema of a dataset, its episodes, and how many rows they need."""
    if not path.exists():
        raise DatasetError(str(path), "exist", "no such file or folder")
    if kind is None:
        kind = "minari" if path.is_dir() else "npz" if path.suffix == ".npz" else "d4rl"
    read = _READERS[_known(kind)]
    with _damage_reported(path):
        schema, episodes, rows = read(path, infos, float64)
    return schema, _reported(path, episodes), rows


def _reported(path: Path, episodes: Iterator[Episode]) -> Iterator[Episode]:
    with _damage_reported(path):
        yield from episodes


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """A context in which whatever a damaged file makes libraries raise becomes an error of the dataset."""
    try:
        yield
    except (ReliveError, MemoryError):
        raise
    except Exception as error:
        raise DatasetError(str(path), "be a whole dataset of its kind", f"{type(error).__name__}: {error}") from None


def _known(kind: str) -> str:
    if kind not in _READERS:
        raise OptionError("kind", f"be one of {', '.join(_READERS)}", repr(kind))
    return kind
