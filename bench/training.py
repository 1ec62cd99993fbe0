"""Runs of benchmarks: trained once, and gone on with where they were stopped."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import relive
from relive.training.checkpoint import exists, load_checkpoint
from relive.training.config_file import describe, same_settings, with_imports
from relive.training.settings import resolved


def train(folder: Path, config: Any, env: str, steps: int, **settings: Any) -> None:
    """Up to some steps, from where it is."""
    wanted = with_imports(
        env, config, resolved(config, relive.training.RunConfig(steps=steps, video=False, **settings))
    )
    if not exists(folder):
        shutil.rmtree(folder, ignore_errors=True)  # begun, and stopped before anything was saved
        done = relive.train(config, env, folder=folder, config=wanted)
    else:
        path = folder / "config.toml"
        if not same_settings(path, env, config, dataclasses.replace(wanted, steps=describe(path).run["steps"])):
            raise SystemExit(f"{folder} was trained with other settings: remove it")
        if load_checkpoint(folder)["steps"] >= steps:
            return
        done = relive.resume(folder, steps=steps, trust=bool(wanted.imports))
    if done.interrupted:
        raise SystemExit(f"stopped; {folder} goes on from there next time")
