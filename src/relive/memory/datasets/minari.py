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

from relive.errors import DatasetError
from relive.memory.datasets.d4rl import open_h5py
from relive.memory.datasets.episodes import Episode, field_of, fits
from relive.memory.datasets.limits import Budget, check_file, hdf5_dataset, hdf5_group, whole_file
from relive.old_files import GOT, REMEDY, is_old
from relive.schema import Column, Field, Schema
from relive.schema.describe import from_plain, to_plain
from relive.schema.spaces import smallest
from relive.types import Array

__all__ = ["read", "write"]

Tree: TypeAlias = "Array | dict[str, Tree]"

_VERSION = "0.5.4"
_MOST_TEXT = 1 << 26  # bytes of metadata
_DEEPEST = 32
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
    count = steps = 0
    with whole_file(folder / "main_data.hdf5") as temporary, h5py.File(temporary, "w", track_order=True) as file:
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
    with whole_file(folder / "metadata.json") as text:
        text.write_text(json.dumps(about))
    return count


def read(path: Path, infos: tuple[str, ...], float64: bool) -> tuple[Schema, Iterator[Episode], int]:
    """The schema, the episodes, and the rows they need, of a dataset's folder or its ``data`` folder."""
    h5py = open_h5py()
    folder = path / "data" if (path / "data" / "main_data.hdf5").exists() else path
    data, described = folder / "main_data.hdf5", folder / "metadata.json"
    check_file(data)
    check_file(described)
    if described.stat().st_size > _MOST_TEXT:
        raise DatasetError(str(described), f"have at most {_MOST_TEXT} bytes", described.stat().st_size)
    about = json.loads(described.read_text())
    if any(map(is_old, about)):
        raise DatasetError(str(path), "be a Minari dataset", GOT, REMEDY)
    count, ours = about["total_episodes"], about.get("relive")
    with h5py.File(data, "r") as file:
        there = sum(name.startswith("episode_") for name in file)
        if type(count) is not int or count != there:
            raise DatasetError(str(described), f"have the {there} episodes of its file as total_episodes", repr(count))
        budget = Budget(data)
        if isinstance(ours, dict):
            schema, places = _known(ours)
        else:
            schema, places = _guess(about, _tree(hdf5_group(file, "episode_0"), Budget(data)), infos, float64=float64)
        total = 0
        for number in range(count):
            group = hdf5_group(file, f"episode_{number}")
            for place in {*places.values(), "truncations"}:
                hdf5_dataset(group, place, budget)
            total += len(hdf5_dataset(group, "terminations", budget))

    def episodes() -> Iterator[Episode]:
        with h5py.File(data, "r") as file:
            for number in range(count):
                yield _episode(f"{path}, episode {number}", file[f"episode_{number}"], schema, places)

    return schema, episodes(), total + count


def _episode(name: str, group: Any, schema: Schema, places: Mapping[str, str]) -> Episode:
    steps = len(group["terminations"])
    if group["terminations"].shape != (steps,) or group["truncations"].shape != (steps,) or steps < 1:
        raise DatasetError(name, "have two flags a step, and a step", f"{steps} steps")
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


def _tree(group: Any, budget: Budget, depth: int = 0) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise DatasetError(str(group.name), f"be nested at most {_DEEPEST} levels deep", "more")
    found: dict[str, Any] = {}
    for name in group:
        part = hdf5_group(group, name)
        found[name] = _tree(part, budget, depth + 1) if hasattr(part, "keys") else hdf5_dataset(group, name, budget)[()]
    return found


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
