"""``relive eval``, ``watch`` and ``plot``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from relive.atomic_files import remove_symlink
from relive.cli.importing import import_from_here
from relive.envs.video import save_video
from relive.errors import OptionError
from relive.training.config_file import seed_folders
from relive.training.curves import bootstrap_ci, draw_runs
from relive.training.replay import load_run

__all__ = ["evaluate", "plot", "watch"]


def evaluate(run: Path, episodes: int, seed: int | None, step: int | None, *, explore: bool, trust: bool) -> None:
    """Print evaluation metrics of a run, or of each seed and over all seeds."""
    if episodes < 1:
        raise OptionError("episodes", "be at least 1", episodes)
    if trust:
        import_from_here()
    folders = seed_folders(run) or [run]
    every: dict[str, list[float]] = {}
    for folder in folders:
        trained = load_run(folder, step=step, trust=trust)
        title = f"{folder.name}: " if len(folders) > 1 else ""
        print(f"{title}{trained.env} after {trained.steps:,} steps, {episodes} episodes")
        for name, value in trained.evaluate(episodes, seed, explore=explore).items():
            every.setdefault(name, []).append(value)
            print(f"  {name} {value:.3f}")
    if len(folders) > 1:
        print(f"{len(folders)} seeds: interquartile mean and 95% interval")
        for name, values in every.items():
            middle, low, high = (float(each) for each in bootstrap_ci(np.array(values)))
            print(f"  {name} {middle:.3f} ({low:.3f} to {high:.3f})")


def watch(run: Path, out: Path | None, seed: int | None, fps: float | None, *, trust: bool) -> None:
    """Show an episode in a window, or save it as a video where there is no display."""
    if trust:
        import_from_here()
    trained = load_run(run, trust=trust)
    try:
        video = trained.record_video(seed)
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:  # Gymnasium draws by packages of its own
        raise OptionError("environment", "be one that can be rendered here", repr(trained.env), str(error)) from error
    fps = video.fps if fps is None else fps
    if out is None and _has_display():
        _show(video.frames, fps)
        return
    print(save_video(out or remove_symlink(run / "watch.gif"), video.frames, fps=fps))


def plot(runs: Sequence[Path], out: Path, labels: Sequence[str]) -> None:
    """Plot the learning curves of runs."""
    if not runs:
        raise OptionError("runs", "be at least one", "none")
    print(draw_runs(runs, out, labels))


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _show(pictures: Sequence[Any], fps: float) -> None:
    from matplotlib import animation
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(layout="constrained")
    axes.axis("off")
    image = axes.imshow(pictures[0])
    kept = animation.FuncAnimation(
        figure, lambda frame: (image.set_data(pictures[frame]), (image,))[1], len(pictures), interval=1000 / fps
    )
    plt.show()
    del kept
