"""The runs of a folder as plain data: settings, status, curves, images and events."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

from relive.errors import OptionError
from relive.live import published
from relive.training.status import read_status

__all__ = ["Runs"]

_DEPTH = 4  # folders below the first that runs are looked for in
_MOST = 1000  # runs that are listed
_POINTS = 2000  # of a curve
_EVENTS = 200
_PICTURES = {".png": "image/png", ".gif": "image/gif", ".jpg": "image/jpeg", ".mp4": "video/mp4"}
_OWN_WORDS = ("seed", "steps")  # settings that runs of one kind differ in


@final
class Runs:
    """The runs below a folder, named by relative path; nothing outside can be read."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._metrics: dict[str, tuple[tuple[int, int], list[dict[str, Any]]]] = {}

    def listed(self) -> list[dict[str, Any]]:
        """All of them, newest first."""
        found = [self._about(folder) for folder in self._folders()]
        return sorted((run for run in found if run is not None), key=lambda run: -run["updated"])

    def folder(self, name: str) -> Path:
        """The folder of a run.

        Raises:
            OptionError: If there is none of that name.
        """
        for folder in self._folders():
            if self._name(folder) == name:
                return folder
        raise OptionError("run", "be one of those here", repr(name))

    def about(self, name: str) -> dict[str, Any]:
        """A run's settings, pictures and events."""
        folder = self.folder(name)
        about = self._about(folder)
        if about is None:
            raise OptionError("run", "have settings that can be read", repr(name))
        lines = self._lines(folder)
        names = sorted({key for line in lines for key, value in line.items() if isinstance(value, (int, float))})
        pictures = sorted(path.name for path in folder.iterdir() if path.suffix in _PICTURES and _plain_file(path))
        return {**about, "settings": _flat(_config(folder)), "metrics": names, "pictures": pictures,
                "events": _events(folder)}  # fmt: skip

    def curve(self, name: str, metric: str) -> dict[str, Any]:
        """A metric over steps, wall-clock and CPU seconds; at most 2,000 points, the last among them."""
        lines = [line for line in self._lines(self.folder(name)) if isinstance(line.get(metric), (int, float))]
        stride = -(-len(lines) // _POINTS) or 1
        kept = [line for place, line in enumerate(lines) if (len(lines) - 1 - place) % stride == 0]
        xs = {"step": "step", "seconds": "time/seconds", "cpu": "time/cpu_seconds"}
        found = {x: [_number(line.get(key)) for line in kept] for x, key in xs.items()}
        return {**found, "value": [_number(line[metric]) for line in kept]}

    def picture(self, name: str, file: str) -> tuple[Path, str]:
        """The path of a picture of a run, and its kind."""
        folder = self.folder(name)
        path = folder / file
        if Path(file).name != file or path.suffix not in _PICTURES or not _plain_file(path):
            raise OptionError("picture", "be one of the run's", repr(file))
        return path, _PICTURES[path.suffix]

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _folders(self) -> Iterator[Path]:
        count = 0
        for here, below, files in os.walk(self._root):
            folder = Path(here)
            if "config.toml" in files and ({"metrics.jsonl", "status.json", "checkpoint.json"} & set(files)):
                below.clear()
                count += 1
                yield folder
            below[:] = sorted(each for each in below if not each.startswith("."))
            if len(folder.relative_to(self._root).parts) >= _DEPTH:
                below.clear()
            if count >= _MOST:
                return

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self._root).as_posix()

    def _about(self, folder: Path) -> dict[str, Any] | None:
        try:
            config = _config(folder)
            algorithm, env, run = str(config["algorithm"]), str(config["env"]), dict(config["run"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        status, lines = read_status(folder), self._lines(folder)
        last: Mapping[str, Any] = lines[-1] if lines else {}
        returns = {key: _number(value) for key, value in last.items() if key.split("/")[-1] == "return"
                   and key.split("/")[0] not in ("train", "info")}  # fmt: skip
        settings = {key: value for key, value in _flat(config).items() if key.rpartition(".")[2] not in _OWN_WORDS}
        return {
            "name": self._name(folder),
            "algorithm": algorithm,
            "env": env,
            "seed": run.get("seed"),
            "kind": json.dumps(settings, sort_keys=True, default=str),
            "status": status.state,
            "error": status.error,
            "step": last.get("step", 0),
            "steps": run.get("steps", 0),
            "returns": returns,
            "steps_per_second": _number(last.get("time/steps_per_second")),
            "live": status.state == "going" and published(folder) is not None,
            "memory": (folder / "checkpoint.json").exists(),
            "updated": _updated(folder),
        }

    def _lines(self, folder: Path) -> list[dict[str, Any]]:
        path, name = folder / "metrics.jsonl", self._name(folder)
        try:
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_size)
            if name not in self._metrics or self._metrics[name][0] != mark:
                self._metrics[name] = (mark, list(_read_lines(path)))
            return self._metrics[name][1]
        except OSError:
            return []


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Lines that are whole: the last may be being written."""
    with open(path, errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line


def _config(folder: Path) -> dict[str, Any]:
    with open(folder / "config.toml", "rb") as file:
        return tomllib.load(file)


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return found


def _events(folder: Path) -> list[dict[str, Any]]:
    try:
        return list(_read_lines(folder / "events.jsonl"))[-_EVENTS:]
    except OSError:
        return []


def _updated(folder: Path) -> float:
    times = [0.0]
    for name in ("metrics.jsonl", "status.json", "config.toml"):
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return max(times)


def _plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _number(value: Any) -> float | None:
    if not isinstance(value, (int, float)) or value != value or value in (float("inf"), float("-inf")):
        return None
    return value
