"""A run's settings as TOML, beside its results.

Reading what a file says runs nothing (``describe``). Making settings of it may import modules that it names, which
needs consent (``trust.py``).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np

from relive import envs, run_files
from relive.agents.interface import Algorithm
from relive.agents.registry import find
from relive.errors import OptionError, RunError
from relive.messages import did_you_mean
from relive.training.checkpoint import check_version
from relive.training.settings import RunConfig, as_data, with_changes, with_networks
from relive.training.trust import check_trust, import_modules, own_module

__all__ = [
    "Description",
    "describe",
    "describe_run",
    "read_config",
    "read_run",
    "same_settings",
    "seed_folders",
    "with_imports",
    "write_config",
]


_MOST = 1 << 22  # bytes of settings


@final
@dataclass(frozen=True)
class Description:
    """A run's settings as data."""

    env: str
    algorithm: str
    settings: dict[str, Any]
    """Of the algorithm, by name."""
    run: dict[str, Any]
    """Of the run, by name."""


def with_imports(env: str, algorithm: Algorithm, run: RunConfig) -> RunConfig:
    """Settings with the modules that register a custom algorithm or environment."""
    entry = envs.registered(env)
    makers = [type(algorithm), *([] if entry is None else [entry.make])]
    modules = [*run.imports, *filter(None, map(own_module, makers))]
    return replace(run, imports=tuple(dict.fromkeys(modules)))


def write_config(path: Path, env: str, algorithm: Algorithm, run: RunConfig) -> None:
    """All settings as TOML."""
    run_files.write(path.parent, path.name, _text(env, algorithm, run).encode())


def same_settings(path: Path, env: str, algorithm: Algorithm, run: RunConfig) -> bool:
    """Whether a file holds these settings."""
    return describe(path) == _described(tomllib.loads(_text(env, algorithm, run)))


def describe_run(folder: Path) -> Description:
    """The settings of the run in a folder, as data."""
    path = folder / "config.toml"
    if run_files.has_file(folder, path.name):
        check_version(folder)
        return describe(path)
    several = ", ".join(map(str, seed_folders(folder)))
    raise RunError("run", "be a run's folder", str(folder), f"It holds several: {several}." if several else "")


def seed_folders(folder: Path) -> list[Path]:
    """The runs in a folder of several seeds."""
    found = [path.parent for path in folder.glob("seed_*/config.toml") if not path.parent.is_symlink()]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def read_run(
    folder: Path, *, trust: bool = False, networks: Mapping[str, Any] = MappingProxyType({})
) -> tuple[str, Any, RunConfig]:
    """Environment, algorithm and settings of the run in a folder.

    Args:
        trust: Whether to import modules that it names.
        networks: Parts of one's own that were given in Python, which need no import.
    """
    describe_run(folder)
    env, algorithm, run = read_config(folder / "config.toml", trust=trust, given=networks)
    return env, with_networks(algorithm, networks), run


def read_config(path: Path, *, trust: bool = False, given: Collection[str] = ()) -> tuple[str, Any, RunConfig]:
    """Environment, algorithm and run settings of a TOML file; what it leaves out has its default.

    Args:
        trust: Whether to import modules that it names.
        given: Settings of the algorithm that do not count, since others will be put in their place.
    """
    described = describe(path)
    run = with_changes(RunConfig(), described.run, "run")
    settings = {key: value for key, value in described.settings.items() if key not in given}
    check_trust(described.env, settings, run.imports, path, trust=trust)
    import_modules(run.imports)
    algorithm = with_changes(find(described.algorithm), described.settings, described.algorithm)
    return described.env, algorithm, run


def describe(path: Path) -> Description:
    """What a file says about a run; nothing is imported."""
    try:
        data = tomllib.loads(run_files.read(path.parent, path.name, _MOST).decode())
    except (OSError, ValueError, RecursionError) as error:  # of numbers of very many digits, too
        raise OptionError("config", "be a TOML file that can be read", str(path), str(error)) from None
    return _described(data)


def _described(data: dict[str, Any]) -> Description:
    name = data.get("algorithm")
    if not isinstance(name, str):
        raise OptionError("algorithm", "be the name of an algorithm", repr(name))
    if not isinstance(data.get("env"), str):
        raise OptionError("env", "be the name of an environment", repr(data.get("env")))
    for key in data:
        if key not in ("env", "algorithm", "run", name):
            remedy = did_you_mean(key, ["env", "algorithm", "run", name])
            raise OptionError("key", f"be one of env, algorithm, run, {name}", repr(key), remedy)
    for table in ("run", name):
        if not isinstance(data.get(table, {}), dict):
            raise OptionError(f"[{table}]", "be a table", repr(data[table]))
    return Description(data["env"], name, data.get(name, {}), data.get("run", {}))


def _text(env: str, algorithm: Algorithm, run: RunConfig) -> str:
    name = algorithm.name
    lines = [f"env = {json.dumps(env)}", f"algorithm = {json.dumps(name)}"]
    for table, settings in (("run", run), (name, algorithm)):
        lines += ["", f"[{table}]"]
        data = as_data(settings)
        options = data.pop("env_options", {})
        lines += [f"{key} = {_toml(value)}" for key, value in data.items()]
        if options:
            own = (f"{json.dumps(key, ensure_ascii=False)} = {_toml(value)}" for key, value in options.items())
            lines += ["", f"[{table}.env_options]", *own]
    text = "\n".join(lines) + "\n"
    tomllib.loads(text)  # fail now if it cannot be read again
    return text


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
