"""Run settings: everything but the algorithm's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch

from relive.agents.interface import Algorithm
from relive.agents.registry import default_num_envs
from relive.distributed.shard import DURABILITIES
from relive.errors import OptionError
from relive.learn.factories import GIVEN, name_of
from relive.messages import did_you_mean
from relive.training.loggers import check_loggers

__all__ = [
    "SYNONYMS",
    "RunConfig",
    "about",
    "as_data",
    "device_is_here",
    "immutable_settings",
    "known_device",
    "resolved",
    "with_changes",
    "with_networks",
    "with_settings",
]


_EVALUATIONS = 20  # in a run, by default
SYNONYMS = {
    "learning_rate": ("lr", "actor_lr", "critic_lr"),
    "total_timesteps": ("steps",),
    "n_envs": ("num_envs",),
    "buffer_size": ("capacity",),
    "discount": ("gamma",),
    "n_steps": ("rollout", "n_step"),
}
"""Other libraries' names of settings."""


@final
@dataclass(frozen=True)
class RunConfig:
    """Settings of a run, for every algorithm."""

    steps: int = 1_000_000
    """Environment steps in all, summed over vectorised environments."""
    num_envs: int = 0
    """Vectorised environments; 0: the algorithm's default."""
    actors: int = 0
    """Actor processes beside the learner; 0: act in the learner's process, where runs are reproducible bit for bit."""
    cluster: str = ""
    """Ray cluster for actors, memory shards and evaluations: auto (a running one, or a new one), local (a new one), or
    host:port. Empty: none."""
    shards: int = 1
    """Memory shards on a cluster."""
    durability: str = "journal"
    """What a shard that died is restored from: none, snapshot, journal (everything acknowledged)."""
    max_age: int = 0
    """Staleness limit: policy versions that an actor on a cluster may lag behind before it waits; 0: unlimited."""
    seed: int = 1
    """Random seed of networks, exploration, sampling and environments."""
    eval_every: int = 0
    """Environment steps between evaluations (without exploration); 0: about 20 evaluations in all."""
    eval_episodes: int = 100
    """Episodes per evaluation."""
    eval_max_steps: int = 10_000
    """Steps after which an evaluation truncates an episode, where the environment has no limit."""
    save_every: int = 200_000
    """Environment steps between checkpoints; 0: only at the end and on interruption."""
    keep_checkpoints: int = 0
    """Earlier checkpoints of the networks to keep besides the newest."""
    log: tuple[str, ...] = ("tensorboard",)
    """Loggers besides metrics.jsonl: any of tensorboard, csv, wandb, mlflow."""
    video: bool = True
    """Record a video of an episode at the end."""
    device: str = "cpu"
    """Torch device: cpu, cuda, cuda:1, mps."""
    kernels: bool = True
    """Use the native CPU kernels for small networks; else torch alone."""
    imports: tuple[str, ...] = ()
    """Modules that register custom environments and algorithms."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """Options of the environment."""

    @property
    def eval_interval(self) -> int:
        """Environment steps between evaluations, as given or for about 20 in all."""
        return self.eval_every or max(-(-self.steps // _EVALUATIONS), 1)

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
    """A torch device, available here or not."""
    try:
        return torch.device(name)
    except RuntimeError:
        raise OptionError("device", "be one that torch knows", repr(name), "Such as cpu, cuda or mps.") from None


def device_is_here(name: str) -> bool:
    """Whether a device is available here."""
    kind = known_device(name).type
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return kind == "cpu" or (found is not None and found.type == kind)


def resolved(algorithm: Algorithm, run: RunConfig) -> RunConfig:
    """Settings with the algorithm's defaults filled in."""
    actors = run.actors or (1 if run.cluster else 0)
    return dataclasses.replace(run, num_envs=run.num_envs or default_num_envs(algorithm), actors=actors)


def about(env: str, algorithm: Algorithm, run: RunConfig) -> dict[str, Any]:
    """All settings as one dictionary, for loggers."""
    name = f"{algorithm.name}-{env}-{run.seed}"
    return {"name": name, "env": env, "algorithm": algorithm.name, **as_data(run), **as_data(algorithm)}


def as_data(settings: Any) -> dict[str, Any]:
    """Settings by name, with functions replaced by their names."""
    found = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    return {key: name_of(value) or GIVEN if callable(value) else value for key, value in found.items()}


def with_networks(algorithm: Any, networks: Mapping[str, Any]) -> Any:
    """An algorithm with custom networks or losses, by the names of its settings."""
    known = as_data(algorithm)
    for name in networks:
        if name not in known:
            raise OptionError("network", f"have the name of a setting of {algorithm.name}", repr(name))
    return dataclasses.replace(algorithm, **networks)


def with_settings(algorithm: Any, run: RunConfig, settings: Mapping[str, Any]) -> tuple[Any, RunConfig]:
    """An algorithm and a run with some settings of either changed; unknown names are refused with the nearest."""
    of_run = {field.name for field in dataclasses.fields(run)}
    known = {*of_run, *(field.name for field in dataclasses.fields(algorithm))}
    for name in settings:
        if name not in known:
            meant = [repr(each) for each in SYNONYMS.get(name, ()) if each in known]
            remedy = f"Did you mean {' or '.join(meant)}?" if meant else did_you_mean(name, known)
            raise OptionError("setting", f"be one of the run or of {algorithm.name}", repr(name), remedy)
    own = {name: value for name, value in settings.items() if name not in of_run}
    run = with_changes(run, {name: value for name, value in settings.items() if name in of_run}, "run")
    return with_changes(algorithm, own, algorithm.name), run


def immutable_settings(env: str, algorithm: Algorithm, run: RunConfig) -> dict[str, Any]:
    """Settings that cannot change when a run is resumed."""
    whole = {"env": env, "env_options": run.env_options, "num_envs": run.num_envs, "seed": run.seed}
    data = {**whole, "algorithm": algorithm.name, **as_data(algorithm)}
    return dict(json.loads(json.dumps(data, default=lambda value: value.item())))


def with_changes(settings: Any, changes: Mapping[str, Any], table: str) -> Any:
    """Settings with some changed; unknown names are refused with the nearest there is."""
    known = {field.name: field for field in dataclasses.fields(settings)}
    made = {}
    for name, value in changes.items():
        if name not in known:
            remedy = did_you_mean(name, known)
            raise OptionError(f"key of [{table}]", f"be one of {', '.join(known)}", repr(name), remedy)
        default = getattr(settings, name)
        made[name] = _fitting(f"{table}.{name}", value, default)
    return dataclasses.replace(settings, **made)


def _fitting(name: str, value: Any, default: Any) -> Any:
    """A value of the default's type; functions and modules stay, for settings that name custom parts."""
    if callable(value) and isinstance(default, str):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(default, tuple) and isinstance(value, (list, tuple)):
        kind = type(default[0]) if default else str
        value = [part.item() if isinstance(part, np.generic) else part for part in value]
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
