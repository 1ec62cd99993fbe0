"""Settings of a run."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import torch

from recollect.agents.interface import Algorithm
from recollect.agents.registry import default_num_envs
from recollect.distributed.shard import DURABILITIES
from recollect.errors import OptionError
from recollect.learn.factories import GIVEN, name_of
from recollect.train.loggers import check_loggers

__all__ = [
    "RunConfig",
    "about",
    "as_data",
    "device_is_here",
    "immutable_settings",
    "known_device",
    "resolved",
    "with_changes",
    "with_networks",
]


_EVALUATIONS = 20  # of a run, unless it says otherwise


@final
@dataclass(frozen=True)
class RunConfig:
    """Settings of a run, whatever learns in it."""

    steps: int = 1_000_000
    """Steps of all environments together."""
    num_envs: int = 0
    """Vectorised environments; 0: as many as suit the algorithm."""
    actors: int = 0
    """Processes that step them beside the one that learns; 0: this one does, and runs repeat bit for bit."""
    cluster: str = ""
    """A Ray cluster that actors, shards of the memory and evaluations are on: auto (this machine's, or a new one),
    local (a new one), or host:port. Empty: none."""
    shards: int = 1
    """Of the memory on a cluster."""
    durability: str = "journal"
    """What a shard that dies begins again with: none, snapshot, journal (all that it had acknowledged)."""
    max_age: int = 0
    """Versions of the policy that an actor on a cluster may be behind before it waits; 0: any."""
    seed: int = 1
    """What everything random depends on."""
    eval_every: int = 0
    """Steps between evaluations, which explore nothing; 0: about twenty of them in all."""
    eval_episodes: int = 100
    """Episodes of an evaluation."""
    eval_max_steps: int = 10_000
    """Steps after which an evaluation takes an episode as it is, where the environment has no limit of its own."""
    save_every: int = 200_000
    """Steps between checkpoints; 0: only at the end and when interrupted."""
    keep_checkpoints: int = 0
    """Learners' states to keep besides the newest checkpoint, as they were when earlier ones were saved."""
    log: tuple[str, ...] = ("tensorboard",)
    """Where metrics go besides metrics.jsonl: some of tensorboard, csv, wandb, mlflow."""
    video: bool = True
    """Whether an episode is recorded at the end."""
    device: str = "cpu"
    """Where to learn and act: cpu, cuda, cuda:1, mps."""
    kernels: bool = True
    """Whether small networks run by the native core on the CPU; else by torch alone."""
    imports: tuple[str, ...] = ()
    """Modules that register environments and algorithms of one's own."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """Options of the environment."""

    def __post_init__(self) -> None:
        for name in ("steps", "eval_episodes", "eval_max_steps", "shards"):
            if getattr(self, name) < 1:
                raise OptionError(name, "be at least 1", getattr(self, name))
        for name in ("seed", "save_every", "num_envs", "eval_every", "keep_checkpoints", "actors", "max_age"):
            if getattr(self, name) < 0:
                raise OptionError(name, "be at least 0", getattr(self, name))
        if self.durability not in DURABILITIES:
            raise OptionError("durability", f"be one of {', '.join(DURABILITIES)}", repr(self.durability))
        known_device(self.device)
        check_loggers(self.log)


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
    every = run.eval_every or max(-(-run.steps // _EVALUATIONS), 1)
    actors = run.actors or (1 if run.cluster else 0)
    return dataclasses.replace(
        run, num_envs=run.num_envs or default_num_envs(algorithm), eval_every=every, actors=actors
    )


def about(env: str, algorithm: Algorithm, run: RunConfig) -> dict[str, Any]:
    """All settings under one roof, for loggers that keep them."""
    name = f"{algorithm.name}-{env}-{run.seed}"
    return {"name": name, "env": env, "algorithm": algorithm.name, **as_data(run), **as_data(algorithm)}


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
