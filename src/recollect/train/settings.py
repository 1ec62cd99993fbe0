"""Settings of a run, and how they are kept as TOML."""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from recollect.agents.interface import Algorithm
from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.qmix import QMIXConfig
from recollect.errors import OptionError, RunError
from recollect.learn.factories import GIVEN, name_of
from recollect.train.checkpoint import check_version
from recollect.train.files import put

__all__ = [
    "ALGORITHMS",
    "RunConfig",
    "as_data",
    "device_is_here",
    "immutable_settings",
    "known_device",
    "read_config",
    "read_run",
    "resolved",
    "seed_folders",
    "with_changes",
    "with_networks",
    "write_config",
]


_OURS: tuple[Algorithm, ...] = (MADDPGConfig(), QMIXConfig(), QMIXConfig(mixer="vdn"), QMIXConfig(mixer="none"))
ALGORITHMS: dict[str, Any] = {algorithm.name: algorithm for algorithm in _OURS}
"""Settings of every algorithm as they are by default, by its name."""


@final
@dataclass(frozen=True)
class RunConfig:
    """Settings of a run, whatever learns in it."""

    steps: int = 1_000_000
    """Steps of all environments together."""
    num_envs: int = 0
    """Vectorised environments; 0: as many as suit the algorithm."""
    seed: int = 1
    """What everything random depends on."""
    eval_every: int = 50_000
    """Steps between evaluations, which explore nothing."""
    eval_episodes: int = 100
    """Episodes of an evaluation."""
    eval_max_steps: int = 10_000
    """Steps after which an evaluation takes an episode as it is, where the environment has no limit of its own."""
    save_every: int = 200_000
    """Steps between checkpoints; 0: only at the end and when interrupted."""
    video: bool = True
    """Whether an episode is recorded at the end."""
    device: str = "cpu"
    """Where to learn and act: cpu, cuda, cuda:1, mps."""
    kernels: bool = True
    """Whether small networks run by the native core on the CPU; else by torch alone."""
    threads: int = 1
    """Threads of torch. One is fastest for small networks."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """Options of the environment."""

    def __post_init__(self) -> None:
        for name in ("steps", "eval_every", "eval_episodes", "eval_max_steps", "threads"):
            if getattr(self, name) < 1:
                raise OptionError(name, "be at least 1", getattr(self, name))
        for name in ("seed", "save_every", "num_envs"):
            if getattr(self, name) < 0:
                raise OptionError(name, "be at least 0", getattr(self, name))
        known_device(self.device)


def known_device(name: str) -> torch.device:
    """A device that torch knows, whether there is one here or not."""
    try:
        return torch.device(name)
    except RuntimeError:
        raise OptionError("device", "be one that torch knows", repr(name), "Such as cpu, cuda or mps.") from None


def device_is_here(name: str) -> bool:
    """Whether torch finds such a device."""
    kind = known_device(name).type
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return kind == "cpu" or (found is not None and found.type == kind)


def resolved(algorithm: Algorithm, run: RunConfig) -> RunConfig:
    """Settings in which nothing is left to the algorithm."""
    return dataclasses.replace(run, num_envs=run.num_envs or algorithm.default_num_envs)


def as_data(settings: Any) -> dict[str, Any]:
    """Settings by name, with the names of functions that were given in Python in place of these."""
    found = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    return {key: name_of(value) or GIVEN if callable(value) else value for key, value in found.items()}


def with_networks(algorithm: Any, networks: Mapping[str, Any] | None) -> Any:
    """An algorithm with parts of one's own, by the names of its settings."""
    known = as_data(algorithm)
    for name in networks or ():
        if name not in known:
            raise OptionError("networks", f"have names of {algorithm.name}'s settings", repr(name))
    return dataclasses.replace(algorithm, **networks) if networks else algorithm


def immutable_settings(env: str, algorithm: Algorithm, run: RunConfig) -> dict[str, Any]:
    """Settings that a run cannot change once it has begun."""
    whole = {"env": env, "env_options": run.env_options, "num_envs": run.num_envs, "seed": run.seed}
    data = {**whole, "algorithm": algorithm.name, **as_data(algorithm)}
    return dict(json.loads(json.dumps(data, default=lambda value: value.item())))


def with_changes(settings: Any, changes: Mapping[str, Any], table: str) -> Any:
    """Settings with some changed; unknown names are refused with the nearest there is."""
    known = {field.name: field for field in dataclasses.fields(settings)}
    made = {}
    for name, value in changes.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            remedy = f"Did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"key of [{table}]", f"be one of {', '.join(known)}", repr(name), remedy)
        default = getattr(settings, name)
        made[name] = _fitting(f"{table}.{name}", value, default)
    return dataclasses.replace(settings, **made)


def _fitting(name: str, value: Any, default: Any) -> Any:
    """A value of the kind that the default has."""
    if isinstance(default, tuple) and isinstance(value, (list, tuple)):
        kind = type(default[0]) if default else str
        if any(type(part) is not kind for part in value):
            raise OptionError(name, f"be a list of {kind.__name__}", f"{value!r}")
        return tuple(value)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, int) and isinstance(value, float) and value.is_integer() and not isinstance(default, bool):
        return int(value)
    if type(value) is not type(default):
        raise OptionError(name, f"be a {type(default).__name__}", f"{value!r}")
    return value


def write_config(path: Path, env: str, algorithm: Algorithm, run: RunConfig) -> None:
    """All settings as TOML."""
    name = algorithm.name
    lines = [f"env = {json.dumps(env)}", f"algorithm = {json.dumps(name)}"]
    for table, settings in (("run", run), (name, algorithm)):
        lines += ["", f"[{table}]"]
        plain = as_data(settings)
        options = plain.pop("env_options", {})
        lines += [f"{key} = {_toml(value)}" for key, value in plain.items()]
        if options:
            own = (f"{json.dumps(key, ensure_ascii=False)} = {_toml(value)}" for key, value in options.items())
            lines += ["", f"[{table}.env_options]", *own]
    text = "\n".join(lines) + "\n"
    tomllib.loads(text)  # what cannot be read again is not worth a run
    put(path, text.encode())


def _toml(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_toml(part) for part in value)}]"
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return repr(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    raise OptionError("option", "be a number, text, true or false, or a list of them", repr(value))


def read_run(folder: Path) -> tuple[str, Algorithm, RunConfig]:
    """Environment, algorithm and settings of the run in a folder."""
    path = folder / "config.toml"
    if path.exists():
        check_version(folder)
        return read_config(path)
    several = ", ".join(map(str, seed_folders(folder)))
    raise RunError("run", "be a run's folder", str(folder), f"It holds several: {several}." if several else "")


def seed_folders(folder: Path) -> list[Path]:
    """The runs in a folder of several seeds."""
    found = [path.parent for path in folder.glob("seed_*/config.toml")]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def read_config(path: Path) -> tuple[str, Algorithm, RunConfig]:
    """Environment, algorithm and run of a TOML file; what it leaves out stays as it is by default."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError("config", "be a TOML file that can be read", str(path), str(error)) from None
    name = data.get("algorithm")
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise OptionError("algorithm", f"be one of {', '.join(ALGORITHMS)}", repr(name))
    if not isinstance(data.get("env"), str):
        raise OptionError("env", "be the name of an environment", repr(data.get("env")))
    for key in data:
        if key not in ("env", "algorithm", "run", name):
            near = difflib.get_close_matches(key, ["env", "algorithm", "run", name], 1, 0.5)
            remedy = f"Did you mean {near[0]!r}?" if near else ""
            raise OptionError("key", f"be one of env, algorithm, run, {name}", repr(key), remedy)
    for table in ("run", name):
        if not isinstance(data.get(table, {}), dict):
            raise OptionError(f"[{table}]", "be a table", repr(data[table]))
    run = with_changes(RunConfig(), data.get("run", {}), "run")
    return data["env"], with_changes(ALGORITHMS[name], data.get(name, {}), name), run
