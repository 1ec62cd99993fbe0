"""Curves of several runs in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from recollect.errors import RunError
from recollect.train.records import WON, plain, read_metrics, save_picture
from recollect.train.settings import RunConfig, as_data, read_run, seed_folders

__all__ = ["bootstrap_ci", "draw_runs", "interquartile_mean"]

Array = np.ndarray[Any, Any]

_FEW = 20  # evaluations, below which each is marked


def interquartile_mean(values: Array, axis: int = 0) -> Array:
    """The mean of the middle half: less swayed by one run than the mean, by all of them more than the median.

    Values that lie across a quartile count in part (Agarwal et al. 2021).

    >>> interquartile_mean(np.array([0.0, 1.0, 2.0, 30.0])).item()
    1.5
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=axis)
    count = ordered.shape[axis]
    edges = np.arange(count + 1) / count
    part = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return np.asarray(np.tensordot(part / part.sum(), np.moveaxis(ordered, axis, 0), axes=1))


def bootstrap_ci(values: Array, *, draws: int = 2000, level: float = 0.95) -> tuple[Array, Array, Array]:
    """The interquartile mean over runs ``[R, T]``, and the ends of its confidence interval by the bootstrap."""
    random = np.random.default_rng(0)
    picks = random.integers(0, len(values), (draws, len(values)))
    means = interquartile_mean(values[picks], axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return interquartile_mean(values), low, high


def draw_runs(folders: Sequence[str | Path], path: str | Path) -> Path:
    """Draw the returns of runs; those that differ by their seed only become one line with a band.

    Lines of one algorithm and environment say in which settings they differ.

    Args:
        folders: Of runs, or of several seeds.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    kinds: dict[str, list[Path]] = {}
    every = chain.from_iterable(seed_folders(Path(folder)) or [Path(folder)] for folder in folders)
    for folder in dict.fromkeys(folder.resolve() for folder in every):
        env, algorithm, config = read_run(folder)
        kinds.setdefault(repr((env, algorithm, _same(config))), []).append(folder)
    won = any(WON in line for folder in chain.from_iterable(kinds.values()) for line in read_metrics(folder)[:1])
    figure, panels = plt.subplots(1 + won, figsize=(8, 4.5 + 2.5 * won), layout="constrained", squeeze=False)
    labels = _labels([read_run(runs[0]) for runs in kinds.values()])
    for title, runs in zip(labels, kinds.values(), strict=True):
        seeds = {read_run(run)[2].seed for run in runs}
        several = f"{len(runs)} {'seeds' if len(seeds) == len(runs) else 'runs'}"
        lines = [read_metrics(run) for run in runs]
        names = [name for name in (lines[0][0] if lines[0] else {}) if name.split("/")[-1] == "return"]
        for run, metrics in zip(runs, lines, strict=True):
            if not names or not metrics:
                raise RunError("run", "have been evaluated", str(run))
        steps = sorted(set.intersection(*({line["step"] for line in run} for run in lines)))
        for name in [*names, *([WON] if WON in lines[0][0] else [])]:
            values = np.array([[line[name] for line in run if line["step"] in steps] for run in lines])
            label = " ".join(filter(None, (title, name.rpartition("/")[0])))
            axes = panels[int(name == WON), 0]
            style: dict[str, Any] = {"marker": "." if len(steps) < _FEW else None}
            if len(runs) > 1:
                middle, low, high = bootstrap_ci(values)
                (drawn,) = axes.plot(steps, middle, label=f"{label} ({several})", **style)
                axes.fill_between(steps, low, high, alpha=0.2, color=drawn.get_color())
                if len(steps) == 1:
                    axes.vlines(steps, low, high, color=drawn.get_color())
            else:
                axes.plot(steps, values[0], label=label, **style)
    panels[0, 0].set_ylabel("return of an agent")
    panels[0, 0].legend()
    if won:
        panels[1, 0].set(ylabel="battles won", ylim=(-0.03, 1.03))
    plain(panels)
    return save_picture(figure, path)


def _same(config: RunConfig) -> dict[str, Any]:
    """What runs of one kind have alike."""
    return {key: value for key, value in asdict(config).items() if key not in ("seed", "steps")}


def _labels(kinds: Sequence[tuple[str, Any, RunConfig]]) -> list[str]:
    """The algorithm and the environment of each kind of run, and what tells it from others of the same."""
    titles = [f"{algorithm.name} {env}" for env, algorithm, _ in kinds]
    settings = [{**as_data(algorithm), **_same(config)} for _, algorithm, config in kinds]
    labels = []
    for title, mine in zip(titles, settings, strict=True):
        peers = [each for other, each in zip(titles, settings, strict=True) if other == title]
        told = [f"{key} {value}" for key, value in mine.items() if any(peer[key] != value for peer in peers)]
        labels.append(f"{title}: {', '.join(told)}" if told else title)
    return labels
