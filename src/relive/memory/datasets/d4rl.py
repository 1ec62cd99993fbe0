"""Episodes as D4RL stores them: flat arrays over all steps, ends marked by ``terminals`` and ``timeouts``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from relive.errors import DatasetError, MissingExtra
from relive.memory.datasets.episodes import Episode, field_of, fits, one_obs_and_action
from relive.memory.datasets.limits import Budget, check_file, hdf5_dataset, whole_file
from relive.schema import Schema
from relive.types import Array

__all__ = ["from_arrays", "read", "write"]

_NAMES = {"obs": "observations", "action": "actions", "reward": "rewards"}


def write(path: Path, schema: Schema, episodes: Iterable[Episode]) -> int:
    """Write episodes; returns how many. ``next_observations`` is always there, so that nothing is lost at timeouts."""
    h5py = open_h5py()
    one_obs_and_action(schema, "a D4RL file")
    keys = [column.key for column in schema if column.role != "next"]
    # An empty part first, so that there is something to write if there are no episodes.
    parts: dict[str, list[Array]] = {_name(key): [np.empty((0, *schema[key].shape), schema[key].dtype)] for key in keys}
    parts |= {"next_observations": list(parts["observations"]), "terminals": [], "timeouts": []}
    for name in ("terminals", "timeouts"):
        parts[name].append(np.empty(0, bool))
    count = 0
    for episode in episodes:
        steps = episode.steps
        for key in keys:
            parts[_name(key)].append(episode.columns[key][:steps])
        next_obs = episode.columns["next_obs"] if schema.loose else episode.columns["obs"][1 : steps + 1]
        parts["next_observations"].append(next_obs)
        ends = np.zeros((2, steps), bool)
        ends[:, -1] = episode.terminated, episode.truncated
        parts["terminals"].append(ends[0])
        parts["timeouts"].append(ends[1])
        count += 1
    with whole_file(path) as temporary, h5py.File(temporary, "w") as file:
        for name, found in parts.items():
            file.create_dataset(name, data=np.concatenate(found))
    return count


def read(path: Path, infos: tuple[str, ...], float64: bool) -> tuple[Schema, Iterator[Episode], int]:
    """The schema, the episodes, and the rows they need."""
    h5py = open_h5py()
    check_file(path)
    with h5py.File(path, "r") as file:
        names = [*_NAMES.values(), "terminals", "timeouts", "next_observations"]
        names += [f"infos/{name}" for name in infos]
        budget, arrays = Budget(path), {}
        for name in names:
            with suppress(KeyError):
                arrays[name] = hdf5_dataset(file, name, budget)[()]
    return from_arrays(path, arrays, infos, float64=float64)


def from_arrays(
    path: Path, arrays: Mapping[str, Array], infos: tuple[str, ...], *, float64: bool
) -> tuple[Schema, Iterator[Episode], int]:
    """Episodes from flat arrays. Final observations of timeouts are only known from ``next_observations``.

    Without it, the last step of an episode that did not terminate becomes the final observation of the step before.
    If it is not the next row's observation within an episode, rows are independent transitions: the schema then has its
    own ``next_obs``.
    """
    missing = [name for name in (*_NAMES.values(), "terminals") if name not in arrays]
    if missing:
        known = ", ".join(sorted(arrays)) or "nothing"
        raise DatasetError(str(path), f"have {', '.join(missing)}", known, "Is it a D4RL dataset?")
    total = len(arrays["terminals"])
    extras = {f"infos/{name}": name for name in infos}
    values: dict[str, Array] = {key: np.asarray(arrays[name]) for key, name in _NAMES.items()}
    for name, key in extras.items():
        if name not in arrays:
            raise DatasetError(str(path), f"have {name}", "nothing of that name")
        values[key] = np.asarray(arrays[name])
    values["reward"] = values["reward"].reshape(total)
    fields = {
        key: field_of(key, array, float64=float64, role=None if key in _NAMES else "plain")
        for key, array in values.items()
    }
    values = {key: fits(array, fields[key]) for key, array in values.items()}
    terminals = np.asarray(arrays["terminals"]).reshape(total).astype(bool)
    timeouts = np.asarray(arrays.get("timeouts", np.zeros(total))).reshape(total).astype(bool)
    next_obs = arrays.get("next_observations")
    if next_obs is not None:
        next_obs = fits(np.asarray(next_obs), fields["obs"])
    for key, array in {**values, "next_observations": next_obs}.items():
        if array is not None and len(array) != total:
            raise DatasetError(str(path), f"have {total} values of {key}", len(array))
    loose = next_obs is not None and not _is_next(values["obs"], next_obs, terminals | timeouts)
    if loose:
        values = {"obs": values["obs"], "next_obs": next_obs, **values}  # type: ignore[dict-item]
        fields = {"obs": fields["obs"], "next_obs": fields["obs"], **fields}
    schema = Schema(**fields)
    ends = np.flatnonzero(terminals | timeouts) + 1
    if total and (len(ends) == 0 or ends[-1] != total):
        ends = np.append(ends, total)  # the last episode was not finished

    def episodes() -> Iterator[Episode]:
        start = 0
        for end in map(int, ends):
            terminated, truncated = bool(terminals[end - 1]), bool(timeouts[end - 1])
            last = end
            columns = {key: array[start:end] for key, array in values.items()}
            if loose:
                pass
            elif next_obs is not None:
                columns["obs"] = np.concatenate([columns["obs"], next_obs[end - 1 : end]])
            elif terminated:
                columns["obs"] = np.concatenate([columns["obs"], columns["obs"][-1:]])
            else:
                last = end - 1
                columns = {key: array if key == "obs" else array[:-1] for key, array in columns.items()}
            if last > start:
                yield Episode(columns, terminated, truncated or not terminated)
            start = end

    return schema, episodes(), total + len(ends)


def _is_next(obs: Array, next_obs: Array, ended: Array) -> bool:
    """Whether ``next_obs[t]`` equals ``obs[t + 1]`` within episodes."""
    inside = ~ended[:-1]
    return bool(np.array_equal(obs[1:][inside], next_obs[:-1][inside], equal_nan=obs.dtype.kind == "f"))


def _name(key: str) -> str:
    return _NAMES.get(key, f"infos/{key}")


def open_h5py() -> Any:
    """The h5py package."""
    try:
        import h5py
    except ImportError:
        raise MissingExtra("h5py", "datasets") from None
    return h5py
