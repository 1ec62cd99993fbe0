"""The runs of a folder as plain data: settings, status, curves, images and events."""

from __future__ import annotations

import json
import math
import os
import reprlib
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import numpy as np

from relive import run_files
from relive.errors import OptionError, RunError
from relive.live import published
from relive.training.status import read_status
from relive.web.metrics import Metrics, parsed

__all__ = ["Runs"]

_DEPTH = 4  # folders below the first that runs are looked for in
_MOST = 1000  # runs that are listed
_POINTS = 2000  # of a curve
_EVENTS, _MOST_EVENTS = 200, 1 << 20  # lines and bytes of events
_MOST_SETTINGS = 1 << 22  # bytes
_DEEPEST = 16  # tables within tables
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, RunError)
_PICTURES = {".png": "image/png", ".gif": "image/gif", ".jpg": "image/jpeg", ".mp4": "video/mp4"}
_OWN_WORDS = ("seed", "steps")  # settings that runs of one kind differ in


@final
class Runs:
    """The runs below a folder, named by relative path; nothing outside can be read."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._metrics: dict[Path, Metrics] = {}
        self._lock = threading.Lock()
        """Held while metrics are read: several requests may come at once."""

    def listed(self) -> list[dict[str, Any]]:
        """All of them, newest first."""
        folders = list(self._folders())
        with self._lock:
            for gone in self._metrics.keys() - set(folders):
                del self._metrics[gone]
        return sorted(map(self._about, folders), key=lambda run: -run["updated"])

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
        about, metrics = self._about(folder), self._read(folder)
        pictures = sorted(path.name for path in folder.iterdir() if path.suffix in _PICTURES and _plain_file(path))
        try:
            settings = _flat(_config(folder))
        except _UNREADABLE:
            settings = {}
        return {**about, "settings": settings, "metrics": sorted(map(printable, metrics.columns)),
                "pictures": list(map(printable, pictures)), "events": _events(folder)}  # fmt: skip

    def curve(self, name: str, metric: str) -> dict[str, Any]:
        """A metric over steps, wall-clock and CPU seconds; at most 2,000 points, the last among them."""
        metrics = self._read(self.folder(name))
        named = {printable(column): column for column in metrics.columns}
        values = metrics.column(named.get(metric, metric))
        places = np.flatnonzero(np.isfinite(values))
        stride = -(-len(places) // _POINTS) or 1
        places = places[(len(places) - 1) % stride :: stride] if len(places) else places
        xs = {"step": "step", "seconds": "time/seconds", "cpu": "time/cpu_seconds"}
        found = {x: [_number(value) for value in metrics.column(key)[places].tolist()] for x, key in xs.items()}
        return {**found, "value": values[places].tolist()}

    def picture(self, name: str, file: str) -> tuple[Path, str]:
        """The path of a picture of a run, and its kind."""
        folder = self.folder(name)
        path = folder / file
        if Path(file).name != file or path.suffix not in _PICTURES or not _plain_file(path):
            raise OptionError("picture", "be one of the run's", repr(file))
        return path, _PICTURES[path.suffix]

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
        return printable(folder.relative_to(self._root).as_posix())

    def _about(self, folder: Path) -> dict[str, Any]:
        """The row of a run in the list; one whose files cannot be read is listed as that."""
        about: dict[str, Any] = {
            "name": self._name(folder), "algorithm": "", "env": "", "seed": None, "kind": "", "status": "unreadable",
            "error": "", "step": 0, "steps": 0, "returns": {}, "steps_per_second": None, "live": False,
            "memory": False, "updated": _updated(folder),
        }  # fmt: skip
        try:
            config = _config(folder)
            names = {key: printable(str(config[key])) for key in ("algorithm", "env")}
            run, last = dict(config["run"]), self._read(folder).last
            settings = {key: value for key, value in _flat(config).items() if key.rpartition(".")[2] not in _OWN_WORDS}
        except _UNREADABLE as error:
            return {**about, "error": printable(f"{type(error).__name__}: {error}")[:500]}
        status = read_status(folder)
        returns = {printable(key): _number(value) for key, value in last.items() if key.split("/")[-1] == "return"
                   and key.split("/")[0] not in ("train", "info")}  # fmt: skip
        return {
            **about,
            **names,
            "seed": _number(run.get("seed")),
            "kind": json.dumps(settings, sort_keys=True),
            "status": printable(status.state),
            "error": printable(status.error),
            "step": _number(last.get("step")) or 0,
            "steps": _number(run.get("steps")) or 0,
            "returns": returns,
            "steps_per_second": _number(last.get("time/steps_per_second")),
            "live": status.state == "going" and published(folder) is not None,
            "memory": run_files.has_file(folder, "checkpoint.json"),
        }

    def _read(self, folder: Path) -> Metrics:
        """The metrics of a run, with what was added since the last look."""
        with self._lock:
            metrics = self._metrics.setdefault(folder, Metrics())
            with suppress(FileNotFoundError):
                metrics.read(folder)
            return metrics


def printable(text: str) -> str:
    """Text as JSON can hold it: bytes of names that are no UTF-8, and lone surrogates, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _config(folder: Path) -> dict[str, Any]:
    return tomllib.loads(run_files.read(folder, "config.toml", _MOST_SETTINGS).decode())


def _flat(values: Mapping[str, Any], above: str = "", depth: int = 0) -> dict[str, Any]:
    """Settings by dotted names, as JSON can hold them."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = printable(f"{above}{key}")
        if isinstance(value, dict) and depth < _DEEPEST:
            found |= _flat(value, f"{above}{key}.", depth + 1)
        elif isinstance(value, (bool, int)) and abs(value) < 1 << 53:
            found[name] = value
        elif isinstance(value, float):
            found[name] = value if math.isfinite(value) else str(value)
        else:
            found[name] = printable(reprlib.repr(value) if isinstance(value, (list, dict)) else str(value))[:500]
    return found


def _events(folder: Path) -> list[dict[str, Any]]:
    """The newest events of a run."""
    try:
        with run_files.open_file(folder, "events.jsonl") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _MOST_EVENTS))
            lines = file.read(_MOST_EVENTS).split(b"\n")
    except (OSError, RunError):
        return []
    return [_flat(line) for text in lines[-_EVENTS:] if (line := parsed(text)) is not None]


def _updated(folder: Path) -> float:
    times = [0.0]
    for name in ("metrics.jsonl", "status.json", "config.toml"):
        with suppress(OSError):
            times.append(os.lstat(folder / name).st_mtime)
    return max(times)


def _plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _number(value: Any) -> float | None:
    """A number that JSON and JavaScript can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        return None
    return value
