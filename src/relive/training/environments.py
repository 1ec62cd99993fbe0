"""The environments of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relive import envs
from relive.agents.interface import Algorithm
from relive.envs.interface import Env
from relive.envs.one_agent import OneAgent
from relive.errors import OptionError

__all__ = ["make_drawable_env", "make_env"]


def make_env(algorithm: Algorithm, name: str, num_envs: int, options: Mapping[str, Any]) -> Env:
    """Vectorised environments by name; without the agent axis for single-agent algorithms."""
    if "num_envs" in options:
        remedy = "Set num_envs of the run (--num-envs)."
        raise OptionError("option", "not be num_envs", repr(options["num_envs"]), remedy)
    return _seen_by(algorithm, envs.make(name, num_envs=num_envs, **options))


def make_drawable_env(algorithm: Algorithm, name: str, options: Mapping[str, Any]) -> Env:
    """One environment that can be rendered, if possible."""
    return _seen_by(algorithm, envs.make_drawable(name, **options))


def _seen_by(algorithm: Algorithm, env: Env) -> Env:
    return OneAgent(env) if getattr(algorithm, "single_agent", False) else env
