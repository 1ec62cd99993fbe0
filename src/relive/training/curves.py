"""Learning curves of several runs in one plot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, final

import numpy as np

from relive.errors import OptionError, RunError
from relive.training.config_file import Description, describe_run, seed_folders
from relive.training.loggers import read_metrics
from relive.training.metrics import evaluations
from relive.training.pictures import report_panel, save_picture
from relive.training.style import add_caption, format_steps, styled
from relive.types import Array

__all__ = ["bootstrap_ci", "draw_runs", "interquartile_mean"]


_FEW = 20  # evaluations, below which each is marked


def interquartile_mean(values: Array, axis: int = 0) -> Array:
    """The interquartile mean (IQM): robust to outliers, with less variance than the median (Agarwal et al. 2021).

    Values on a quartile boundary have fractional weights.

    >>> interquartile_mean(np.array([0.0, 1.0, 2.0, 30.0])).item()
    1.5
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=axis)
    count = ordered.shape[axis]
    edges = np.arange(count + 1) / count
    part = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return np.asarray(np.tensordot(part / part.sum(), np.moveaxis(ordered, axis, 0), axes=1))


def bootstrap_ci(values: Array, *, draws: int = 2000, level: float = 0.95) -> tuple[Array, Array, Array]:
    """The interquartile mean over runs ``[R, T]``, and the bounds of its bootstrap confidence interval."""
    random = np.random.default_rng(0)
    picks = random.integers(0, len(values), (draws, len(values)))
    means = interquartile_mean(values[picks], axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return interquartile_mean(values), low, high


def draw_runs(folders: Sequence[str | Path], path: str | Path, labels: Sequence[str] = ()) -> Path:
    """Plot the returns of runs; runs that differ only by seed become one line with a confidence band.

    Labels of one algorithm and environment name the settings that differ.

    Args:
        folders: Folders of runs, or of several seeds.
        labels: Labels of the lines, in place of those from settings.
    """
    kinds: dict[str, list[Path]] = {}
    every = chain.from_iterable(seed_folders(Path(folder)) or [Path(folder)] for folder in folders)
    for folder in dict.fromkeys(folder.resolve() for folder in every):
        described = describe_run(folder)
        kinds.setdefault(repr((described.env, described.algorithm, _alike(described))), []).append(folder)
    if labels and len(labels) != len(kinds):
        found = "; ".join(_labels([describe_run(runs[0]) for runs in kinds.values()]))
        raise OptionError("labels", f"be one for each of the {len(kinds)} lines ({found})", len(labels))
    curves = [_Curve(label, runs) for label, runs in zip(_titles(kinds, labels), kinds.values(), strict=True)]
    reports = list(dict.fromkeys(chain.from_iterable(curve.reports for curve in curves)))
    entries = sum(len(curve.returns) for curve in curves)
    height = 4.4 + 2.5 * len(reports) + 0.22 * entries
    envs = {describe_run(runs[0]).env for runs in kinds.values()}
    with styled() as new_figure:
        figure = new_figure(figsize=(8, height), layout="constrained")
        panels = figure.subplots(1 + len(reports), squeeze=False)
        for curve in curves:
            for name in (*curve.returns, *curve.reports):
                curve.draw(panels[1 + reports.index(name) if name in reports else 0, 0], name)
        title = f"Evaluation returns on {envs.pop()}" if len(envs) == 1 else "Evaluation returns"
        panels[0, 0].set(title=title, ylabel="episode return (mean)")
        format_steps(panels[0, 0])
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right")
        for axes, name in zip(panels[1:, 0], reports, strict=True):
            report_panel(axes, name, np.concatenate([line.get_ydata() for line in axes.get_lines()]))
        bands = "Lines are interquartile means over runs, bands their 95% bootstrap confidence intervals. "
        several = any(len(runs) > 1 for runs in kinds.values())
        again = any(len({describe_run(run).run.get("seed") for run in runs}) < len(runs) for runs in kinds.values())
        bands += "Some runs have the same seed, so they say less than that. " if again else ""
        add_caption(figure, f"{bands if several else ''}Evaluations are without exploration.")
        return save_picture(figure, path)


@final
class _Curve:
    """Runs with equal settings, as a line."""

    def __init__(self, label: str, runs: Sequence[Path]) -> None:
        found = [evaluations(read_metrics(run)) for run in runs]
        for run, (lines, _, _) in zip(runs, found, strict=True):
            if not lines:
                raise RunError("run", "have been evaluated", str(run))
        self._lines = [lines for lines, _, _ in found]
        self._steps = sorted(set.intersection(*({line["step"] for line in lines} for lines in self._lines)))
        seeds = {describe_run(run).run.get("seed") for run in runs}
        several = f" ({len(runs)} {'seeds' if len(seeds) == len(runs) else 'runs'})" if len(runs) > 1 else ""
        self._label, self._several = label, several
        self._colour: Any = None
        _, self.returns, self.reports = found[0]

    def draw(self, axes: Any, name: str) -> None:
        """Plot one of its metrics."""
        steps = self._steps
        values = np.array([[line.get(name, np.nan) for line in run if line["step"] in steps] for run in self._lines])
        group = name.rpartition("/")[0]
        label = " ".join(filter(None, (self._label, group))) + self._several
        style: dict[str, Any] = {"marker": "." if len(steps) < _FEW else None, "label": label}
        if name in self.reports:
            style["color"] = self._colour
        middle, low, high = bootstrap_ci(values) if len(values) > 1 else (values[0],) * 3
        (drawn,) = axes.plot(steps, middle, **style)
        self._colour = self._colour or drawn.get_color()
        if len(values) == 1:
            return
        axes.fill_between(steps, low, high, alpha=0.2, color=drawn.get_color())
        if len(steps) == 1:
            axes.vlines(steps, low, high, color=drawn.get_color())


def _titles(kinds: dict[str, list[Path]], labels: Sequence[str]) -> Sequence[str]:
    return labels or _labels([describe_run(runs[0]) for runs in kinds.values()])


_BESIDE = frozenset(
    {"seed", "steps", "eval_every", "eval_episodes", "eval_max_steps", "save_every", "keep_checkpoints", "log", "video"}
    | {"device", "kernels", "imports"}
)
"""Run settings that do not change learning."""


def _alike(run: Description) -> dict[str, Any]:
    """The settings that runs of one line share."""
    return {**run.settings, **{key: value for key, value in run.run.items() if key not in _BESIDE}}


def _labels(kinds: Sequence[Description]) -> list[str]:
    """Labels of lines: algorithm and environment, and the settings that differ among equal ones."""
    titles = [f"{kind.algorithm} {kind.env}" for kind in kinds]
    settings = list(map(_alike, kinds))
    labels = []
    for title, mine in zip(titles, settings, strict=True):
        peers = [each for other, each in zip(titles, settings, strict=True) if other == title]
        differing = [f"{key} {value}" for key, value in mine.items() if any(peer.get(key) != value for peer in peers)]
        labels.append(f"{title}: {', '.join(differing)}" if differing else title)
    return labels
