"""Settings of a run, and how they are kept as TOML."""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
from torch import Tensor

from recollect.agents.maddpg import MADDPGConfig
from recollect.agents.qmix import QMIXConfig
from recollect.envs import Env
from recollect.errors import OptionError, RunError
from recollect.memory import Memory
from recollect.train.files import put

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Learner",
    "Player",
    "RunConfig",
    "lasting",
    "read_config",
    "read_run",
    "seed_folders",
    "settled",
    "with_changes",
    "write_config",
]


class Player(Protocol):
    """Agents at play in some environments."""

    def act(self, seen: Mapping[str, Any], step: int = 0) -> dict[str, Any]:
        """Actions for what is seen.

        Args:
            step: Steps taken so far, which exploration depends on.
        """

    def notes(self) -> dict[str, Any]:
        """Fields that rows of the last actions hold besides what the environment gives, ``[E, ...]``."""

    def ended(self, rows: Any) -> None:
        """Tell where episodes ended, ``[E]``."""

    def state(self) -> dict[str, Tensor]:
        """Everything to go on from."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


class Learner(Protocol):
    """What learns from batches that a memory draws."""

    def player(self, num_envs: int, *, explore: bool) -> Player:
        """The agents, ready to play in some environments."""

    def update(self, batch: Mapping[str, Any]) -> tuple[dict[str, float], np.ndarray[Any, Any]]:
        """Learn from a batch; losses by name, and errors of its rows."""

    def state(self) -> dict[str, Tensor]:
        """Everything to go on from."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""


class Algorithm(Protocol):
    """An algorithm's settings: a frozen dataclass that makes its parts."""

    @property
    def batch(self) -> int:
        """What an update learns from: rows, or whatever its memory is read by."""

    @property
    def prioritized(self) -> float:
        """How much more often what is surprising is drawn; 0: all alike."""

    @property
    def name(self) -> str:
        """What it is called by."""

    @property
    def line(self) -> str:
        """What it is, in a line."""

    @property
    def lanes(self) -> int:
        """Environments in lockstep that suit it."""

    def due(self, steps: int, episodes: int, /) -> int:
        """Updates that there should have been after so much play."""

    def memory(self, env: Env, seed: int) -> Memory:
        """The memory it learns from."""

    def tidy(self, memory: Memory, episodes: int, fresh: int) -> None:
        """Forget what is not wanted any more, after some episodes ended.

        Args:
            episodes: How many have ended in all.
            fresh: How many of these just now.
        """

    def learner(self, env: Env, seed: int) -> Learner:
        """What learns to play in such environments."""


_OURS: tuple[Algorithm, ...] = (MADDPGConfig(), QMIXConfig(), QMIXConfig(mixer="sum"), QMIXConfig(mixer="none"))
ALGORITHMS: dict[str, Any] = {algorithm.name: algorithm for algorithm in _OURS}
"""Settings of every algorithm as they are by default, by its name."""


@final
@dataclass(frozen=True)
class RunConfig:
    """Settings of a run, whatever learns in it."""

    steps: int = 1_000_000
    """Steps of all environments together."""
    num_envs: int = 0
    """Environments in lockstep; 0: as many as suit the algorithm."""
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
    film: bool = True
    """Whether an episode is filmed at the end."""
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


def settled(algorithm: Algorithm, run: RunConfig) -> RunConfig:
    """Settings in which nothing is left to the algorithm."""
    return dataclasses.replace(run, num_envs=run.num_envs or algorithm.lanes)


def lasting(env: str, algorithm: Algorithm, run: RunConfig) -> dict[str, Any]:
    """Settings that a run cannot change once it has begun."""
    own = {f.name: getattr(algorithm, f.name) for f in dataclasses.fields(algorithm)}  # type: ignore[arg-type]
    whole = {"env": env, "env_options": run.env_options, "num_envs": run.num_envs, "seed": run.seed}
    text = json.dumps({**whole, "algorithm": algorithm.name, **own}, default=lambda value: value.item())
    return dict(json.loads(text))


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
        plain = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}  # type: ignore[arg-type]
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
