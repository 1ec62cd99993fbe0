"""Atomic checkpoints of runs.

Two slots alternate. Networks, environments and the memory are written to the unused one; then a small file that names
the valid slot is replaced by a rename. Until then the previous checkpoint is valid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from relive import run_files
from relive.errors import ReliveError, RunError
from relive.memory import Memory, Rollout, Storage, Window
from relive.old_files import GOT, REMEDY

__all__ = [
    "check_settings",
    "check_version",
    "exists",
    "fitting",
    "kept_steps",
    "load_checkpoint",
    "load_kept",
    "load_memory",
    "load_rollout",
    "load_state",
    "memory_folder",
    "save_checkpoint",
]

_FILE = "checkpoint.json"
_HISTORY = "history"
_FORMAT = "relive checkpoint"
_VERSION = 1
_KINDS = {
    "place": int,
    "memory": bool,
    "env": bool,
    "state": str,
    "steps": int,
    "updates": int,
    "episodes": int,
    "metrics": dict,
    "since": dict,
    "returns": dict,
    "evaluated": int,
    "settings": dict,
}
_MOST_JSON = 1 << 26
_MOST_BYTES = 1 << 36
_REMEDY = "Restore it from a copy, or begin a new run."


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint."""
    return run_files.has_file(folder, _FILE)


def save_checkpoint(
    folder: Path,
    learner: Mapping[str, Tensor],
    actor: Mapping[str, Tensor],
    env: Mapping[str, Any] | None,
    memory: Any,
    counters: Mapping[str, Any],
    history: int = 0,
) -> None:
    """Save networks, environments, memory and counters; once this returns they survive any crash.

    Args:
        history: Number of earlier learner states to keep.
    """
    for name, value in learner.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            remedy = "The last checkpoint stays as it is." if exists(folder) else "There is no checkpoint yet."
            raise RunError(name, "be finite to be saved", "NaN or infinity", remedy)
    folder.mkdir(parents=True, exist_ok=True)
    place = 1 - _counters(folder)["place"] if exists(folder) else 0
    tensors = {f"learner/{name}": value.contiguous() for name, value in learner.items()}
    tensors |= {f"actor/{name}": value.contiguous() for name, value in actor.items()}
    if env is not None:
        tensors |= {f"env/{name}": torch.from_numpy(_signed(value)) for name, value in env.items()}
    data = save(tensors)
    run_files.write(folder, f"state-{place}.safetensors", data)
    if memory is not None:
        memory.save(run_files.path_inside(folder, f"memory-{place}"))
    kept = {"format": _FORMAT, "version": _VERSION, "place": place, "memory": memory is not None, **counters}
    kept["env"] = env is not None
    kept["state"] = hashlib.sha256(data).hexdigest()
    run_files.write(folder, _FILE, json.dumps({**kept, "checksum": _checksum(kept)}, indent=1).encode())
    if history:
        _keep_history(folder, learner, counters["steps"], history)


def _keep_history(folder: Path, learner: Mapping[str, Tensor], steps: int, most: int) -> None:
    kept = run_files.make_folder(folder, _HISTORY)
    data = save({name: value.contiguous() for name, value in learner.items()})
    run_files.write(folder, f"{_HISTORY}/{steps:012}.safetensors", data)
    for old in sorted(path for path in kept.glob("*.safetensors") if path.stem.isdigit())[:-most]:
        old.unlink()


def kept_steps(folder: Path) -> list[int]:
    """Steps of the earlier checkpoints that were kept."""
    kept = run_files.path_inside(folder, _HISTORY)
    return [int(path.stem) for path in sorted(kept.glob("*.safetensors")) if path.stem.isdecimal()]


def load_kept(folder: Path, steps: int) -> dict[str, Tensor]:
    """The learner's state of an earlier checkpoint."""
    there = kept_steps(folder)
    if steps not in there:
        known = ", ".join(f"{each:,}" for each in there) or "none: --keep-checkpoints N keeps some"
        raise RunError("step", f"be one that was kept ({known})", steps)
    name = f"{_HISTORY}/{steps:012}.safetensors"
    data = run_files.read(folder, name, _MOST_BYTES)
    try:
        return load(data)
    except Exception as error:
        raise RunError(str(folder / name), "hold networks", error, _REMEDY) from None


def check_version(folder: Path) -> None:
    """Refuse a checkpoint of another format or version, before anything else fails."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        _check_version(folder, json.loads(run_files.read(folder, _FILE, _MOST_JSON)))


def _check_version(folder: Path, about: Mapping[str, Any]) -> None:
    if "format" not in about and isinstance(about["version"], int):  # written under the former name
        raise RunError(str(folder / _FILE), "be a checkpoint of relive's", GOT, REMEDY)
    if about["format"] != _FORMAT or about["version"] != _VERSION:
        got = f"{about['format']!r}, version {about['version']!r}"
        raise RunError(str(folder / _FILE), f"be a checkpoint of version {_VERSION}", got, _REMEDY)


def load_checkpoint(folder: Path) -> dict[str, Any]:
    """The counters of a checkpoint."""
    if not exists(folder):
        raise RunError("run", "have a checkpoint", str(folder))
    return _counters(folder)


def load_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any] | None]:
    """The states of learner, actor, and environments if these can be saved."""
    counters = load_checkpoint(folder)
    path = folder / f"state-{counters['place']}.safetensors"
    if not run_files.has_file(folder, path.name):
        raise RunError(str(path), "be there", "nothing", _REMEDY)
    data = run_files.read(folder, path.name, _MOST_BYTES)
    if hashlib.sha256(data).hexdigest() != counters["state"]:
        raise RunError(str(path), "be as it was written", "a file with another checksum", _REMEDY)
    try:
        tensors = load(data)
    except Exception as error:
        raise RunError(str(path), "hold networks", error, _REMEDY) from None
    learner, actor, kept = (
        {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
        for start in ("learner/", "actor/", "env/")
    )
    if not counters["env"]:
        return learner, actor, None
    with fitting(folder):
        env = {name: value.numpy() for name, value in kept.items()}
        env = {name: value.view(np.uint64) if name.startswith("dice/") else value for name, value in env.items()}
    return learner, actor, env


@contextmanager
def fitting(folder: Path) -> Iterator[None]:
    """A context that reports a state which cannot be loaded as one of another run."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        if isinstance(error, ReliveError):
            raise
        name = str(folder / f"state-{load_checkpoint(folder)['place']}.safetensors")
        raise RunError(name, "hold the state of this run", repr(error)[:200], _REMEDY) from None


def check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuse settings that differ from the checkpoint's."""
    kept, now = load_checkpoint(folder)["settings"], settings
    for name in sorted({*kept, *now}):
        if kept.get(name) != now.get(name):
            raise RunError(
                str(folder / "config.toml"),
                "have the settings that the checkpoint was made with",
                f"{name} = {now.get(name)!r}, which was {kept.get(name)!r}",
                "Put it back, or begin a new run.",
            )


def memory_folder(folder: Path) -> Path:
    """The folder of a checkpoint's memory."""
    path = run_files.path_inside(folder, f"memory-{load_checkpoint(folder)['place']}")
    if not path.is_dir():
        raise RunError(str(path), "be there", "nothing", _REMEDY)
    return path


def load_memory(folder: Path, storage: Storage | None = None, window: Window | None = None) -> Memory:
    """The memory of a checkpoint.

    Args:
        window: The window, if it has functions, which a snapshot does not hold.
    """
    return Memory.load(memory_folder(folder), storage=storage, window=window)


def load_rollout(folder: Path) -> Rollout:
    """The rollout of a checkpoint."""
    return Rollout.load(memory_folder(folder))


def _counters(folder: Path) -> dict[str, Any]:
    try:
        counters = json.loads(run_files.read(folder, _FILE, _MOST_JSON))
        if not isinstance(counters, dict):
            raise ValueError("no table")
        _check_version(folder, counters)
        if counters.pop("checksum") != _checksum(counters):
            raise ValueError("another checksum")
        for name, kind in _KINDS.items():
            if not isinstance(counters[name], kind) or (kind is int and counters[name] < 0):
                raise ValueError(f"{name} = {str(counters[name])[:60]}")
        if counters["place"] not in (0, 1):
            raise ValueError(f"place {counters['place']!r}")
    except KeyError as error:
        raise RunError(str(folder / _FILE), "be a whole checkpoint", f"one without {error}", _REMEDY) from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise RunError(str(folder / _FILE), "be a checkpoint of this version", error, _REMEDY) from None
    return counters


def _checksum(counters: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(counters, sort_keys=True).encode()).hexdigest()


def _signed(value: Any) -> np.ndarray[Any, Any]:
    """Unsigned integers reinterpreted as signed ones, which every torch version supports."""
    array = np.ascontiguousarray(value)
    return array.view(np.int64) if array.dtype == np.uint64 else array
