"""Minari's HDF5 format, read and written without Minari.

What Minari has no place for (per-agent rewards, fields beside observations and actions) is in ``infos/relive``, and
the schema in ``metadata.json``, so that a memory is restored exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from relive.errors import DatasetError, SchemaError
from relive.memory.datasets.d4rl import open_h5py
from relive.memory.datasets.episodes import Episode, field_of, fits
from relive.old_files import GOT, REMEDY, is_old
from relive.schema import Column, Field, Schema
from relive.schema.describe import from_plain, to_plain
from relive.schema.spaces import smallest
from relive.types import Array

__all__ = ["read", "write"]

Tree: TypeAlias = "Array | dict[str, Tree]"

_VERSION = "0.5.4"
_OURS = "infos/relive"
_JPEG = "Images must not be JPEGs: write the dataset with jpeg_encoding off."


def write(path: Path, schema: Schema, episodes: Iterable[Episode]) -> int:
    """Write a dataset to ``path/data``; returns how many episodes. The path's last part is its id."""
    h5py = open_h5py()
    if schema.loose:
        raise DatasetError("Minari", "be given a schema without next fields", str(schema), "Use D4RL or npz.")
    folder = path / "data"
    folder.mkdir(parents=True, exist_ok=True)
    places = {column.key: _place(schema, column) for column in schema}
    ranges: dict[str, tuple[int, int]] = {}
    temporary = folder / ".main_data.tmp"
    count = steps = 0
    with h5py.File(temporary, "w", track_order=True) as file:
        for episode in episodes:
            group = file.create_group(f"episode_{count}")
            group.attrs["id"], group.attrs["total_steps"] = count, episode.steps
            group.create_group("infos")
            for key, values in episode.columns.items():
                group.create_dataset(places[key], data=values)
                if values.dtype.kind in "iu":
                    low, high = ranges.get(key, (0, 0))
                    ranges[key] = min(low, int(values.min())), max(high, int(values.max()))
            ends = np.zeros((2, episode.steps), bool)
            ends[:, -1] = episode.terminated, episode.truncated
            group.create_dataset("terminations", data=ends[0])
            group.create_dataset("truncations", data=ends[1])
            if "rewards" not in places.values():
                group.create_dataset("rewards", data=_total_reward(schema, episode))
            if "actions" not in group:
                group.create_dataset("actions", data=np.zeros(episode.steps, np.int64))
            steps += episode.steps
            count += 1
    temporary.replace(folder / "main_data.hdf5")
    about = {
        "dataset_id": path.name,
        "minari_version": _VERSION,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "total_episodes": count,
        "total_steps": steps,
        "observation_space": json.dumps(_space(schema, places, "observations", ranges)),
        "action_space": json.dumps(_space(schema, places, "actions", ranges)),
        "relive": {"schema": to_plain(schema), "places": places},
    }
    text = folder / ".metadata.tmp"
    text.write_text(json.dumps(about))
    text.replace(folder / "metadata.json")
    return count


def read(path: Path, infos: tuple[str, ...], float64: bool) -> tuple[Schema, Iterator[Episode], int]:
    """The schema, the episodes, and the rows they need, of a dataset's folder or its ``data`` folder."""
    h5py = open_h5py()
    folder = path / "data" if (path / "data" / "main_data.hdf5").exists() else path
    try:
        about = json.loads((folder / "metadata.json").read_text())
        count, ours = int(about["total_episodes"]), about.get("relive")
        if any(map(is_old, about)):
            raise DatasetError(str(path), "be a Minari dataset", GOT, REMEDY)
        with h5py.File(folder / "main_data.hdf5", "r") as file:
            total = sum(len(file[f"episode_{number}/terminations"]) for number in range(count))
            if isinstance(ours, dict):
                schema, places = _known(ours)
            else:
                schema, places = _guess(about, _tree(file["episode_0"]), infos, float64=float64)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SchemaError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(str(path), "be a Minari dataset in HDF5 with an episode", error) from None

    def episodes() -> Iterator[Episode]:
        with h5py.File(folder / "main_data.hdf5", "r") as file:
            for number in range(count):
                yield _episode(f"{path}, episode {number}", file[f"episode_{number}"], schema, places)

    return schema, episodes(), total + count


def _episode(name: str, group: Any, schema: Schema, places: Mapping[str, str]) -> Episode:
    steps = len(group["terminations"])
    columns = {}
    for column in schema:
        values = group[places[column.key]][()]
        expected = steps + (column.role == "observed")
        if places[column.key].startswith("infos/") and not places[column.key].startswith(_OURS):
            values = values[-steps:]  # the first is the reset's
        if values.shape != (expected, *column.shape):
            raise DatasetError(
                name,
                f"hold {column.key} of shape {[expected, *column.shape]}",
                f"{values.dtype}{list(values.shape)}",
                _JPEG,
            )
        columns[column.key] = fits(values, Field(column.shape, column.dtype))
    terminated, truncated = bool(group["terminations"][-1]), bool(group["truncations"][-1])
    return Episode(columns, terminated, truncated or not terminated)


def _known(ours: Mapping[str, Any]) -> tuple[Schema, dict[str, str]]:
    schema = from_plain(ours["schema"])
    return schema, {column.key: str(ours["places"][column.key]) for column in schema}


def _guess(
    about: Mapping[str, Any], first: dict[str, Any], infos: tuple[str, ...], *, float64: bool
) -> tuple[Schema, dict[str, str]]:
    """The schema of a dataset that relive did not write."""
    spaces = {
        name: json.loads(about[f"{space}_space"]) for name, space in (("obs", "observation"), ("action", "action"))
    }
    places: dict[str, str] = {}

    def fields(tree: Any, space: Any, key: str, place: str) -> Any:
        if isinstance(tree, dict):
            kind, subspaces = space.get("type"), space.get("subspaces", {})
            if kind == "Tuple":
                return tuple(
                    fields(tree[f"_index_{i}"], part, f"{key}/{i}", f"{place}/_index_{i}")
                    for i, part in enumerate(subspaces)
                )
            return {
                name: fields(tree[name], part, f"{key}/{name}", f"{place}/{name}") for name, part in subspaces.items()
            }
        places[key] = place
        shape = space.get("shape", [])
        if tree.dtype == object or (shape and list(tree.shape[1:]) != shape):
            raise DatasetError(
                key, f"have the shape {shape} of its space", f"{tree.dtype}{list(tree.shape[1:])}", _JPEG
            )
        field = field_of(key, tree, float64=float64)
        return Field(field.shape, _small(space, field.dtype), field.role)

    parts = {
        "obs": fields(first["observations"], spaces["obs"], "obs", "observations"),
        "action": fields(first["actions"], spaces["action"], "action", "actions"),
        "reward": field_of("reward", first["rewards"], float64=float64),
    }
    places["reward"] = "rewards"
    for name in infos:
        tree: Any = first["infos"]
        for part in name.split("/"):
            if not isinstance(tree, dict) or part not in tree:
                raise DatasetError("infos", f"have {name}", ", ".join(first["infos"]) or "nothing")
            tree = tree[part]
        key = name.replace("/", "_")
        parts[key] = field_of(key, tree, float64=float64, role="plain")
        places[key] = f"infos/{name}"
    return Schema(**parts), places


def _small(space: Mapping[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The smallest dtype for the whole numbers of a space."""
    if space.get("type") == "Discrete":
        low, high = int(space["start"]), int(space["start"]) + int(space["n"]) - 1
    elif space.get("type") == "MultiDiscrete":
        starts = np.asarray(space.get("start", 0))
        low, high = int(starts.min()), int((starts + np.asarray(space["nvec"])).max()) - 1
    else:
        return dtype
    return smallest(low, high)


def _tree(group: Any) -> dict[str, Any]:
    return {name: _tree(part) if hasattr(part, "keys") else part[()] for name, part in group.items()}


def _place(schema: Schema, column: Column) -> str:
    """Where an episode's group holds a column."""
    parts = column.key.split("/")
    if column.role == "observed":
        alone = all(other.key.split("/")[0] == "obs" for other in schema if other.role == "observed")
        return "/".join(["observations", *(parts[1:] if alone else parts)])
    if column.role == "action":
        alone = all(other.key.split("/")[0] == parts[0] for other in schema if other.role == "action")
        return "/".join(["actions", *(parts[1:] if alone else parts)])
    if column.key == "reward" and column.shape == ():
        return "rewards"
    return f"{_OURS}/{column.key}"


def _total_reward(schema: Schema, episode: Episode) -> Array:
    """The sum of all agents' rewards."""
    total = np.zeros(episode.steps)
    for column in schema:
        if column.role == "reward":
            total += episode.columns[column.key].reshape(episode.steps, -1).sum(1)
    return total


def _space(schema: Schema, places: Mapping[str, str], root: str, ranges: Mapping[str, tuple[int, int]]) -> Any:
    tree: dict[str, Any] = {}
    for column in schema:
        path = places[column.key].split("/")
        if path[0] != root:
            continue
        leaf = _leaf_space(column, ranges.get(column.key, (0, 0)), discrete=root == "actions")
        if len(path) == 1:
            return leaf
        node = tree
        for part in path[1:-1]:
            node = node.setdefault(part, {"type": "Dict", "subspaces": {}})["subspaces"]
        node[path[-1]] = leaf
    if not tree:
        return {"type": "Discrete", "dtype": "int64", "start": 0, "n": 1}
    return {"type": "Dict", "subspaces": tree}


def _leaf_space(column: Column, seen: tuple[int, int], *, discrete: bool) -> dict[str, Any]:
    shape, dtype = list(column.shape), column.dtype
    if discrete and dtype.kind in "iu" and not shape:
        low, high = min(0, seen[0]), seen[1]
        return {"type": "Discrete", "dtype": dtype.name, "start": low, "n": high - low + 1}
    if dtype.kind == "b":
        return {"type": "MultiBinary", "n": shape} if shape else {"type": "Discrete", "start": 0, "n": 2}
    limits = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low, high = (np.full(shape, limit, dtype).tolist() for limit in limits)
    return {"type": "Box", "dtype": dtype.name, "shape": shape, "low": low, "high": high}
