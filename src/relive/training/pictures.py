"""The learning curve of a run, and the saving of plots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from relive import run_files
from relive.atomic_files import remove_symlink
from relive.errors import OptionError
from relive.training.loggers import read_metrics
from relive.training.metrics import evaluations
from relive.training.style import COLOURS, add_caption, format_steps, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curve", "report_panel", "save_picture"]


def save_picture(figure: Figure, path: str | Path) -> Path:
    """Write a figure; PNG if the path has no extension. Missing folders are created."""
    path = Path(path)
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise OptionError("out", f"end in one of {', '.join(f'.{ending}' for ending in known)}", repr(str(path)))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(remove_symlink(path))
    return path


def report_panel(axes: Axes, name: str, values: Any) -> None:
    """Label a panel of a metric that the environment reports; rates in [0, 1] get that whole range."""
    axes.set_ylabel(f"{name.replace('_', ' ')} (mean)")
    format_steps(axes)
    if min(values) >= 0 and max(values) <= 1:
        axes.set_ylim(-0.03, 1.03)


def draw_curve(folder: Path, title: str) -> Path | None:
    """Plot the returns of a run's evaluations, and other metrics that the environment reports, as ``curve.png``."""
    lines, returns, reports = evaluations(read_metrics(folder))
    if not lines:
        return None
    count = len(reports)
    with styled() as new_figure:
        figure = new_figure(figsize=(7, 4 + 2.2 * count), layout="constrained")
        panels = figure.subplots(1 + count, squeeze=False)
        for name in returns:
            points = [(line["step"], line[name]) for line in lines if name in line]
            label = name.rpartition("/")[0] or "return"
            panels[0, 0].plot(*zip(*points, strict=True), marker=".", label=label)
        panels[0, 0].set(title=title, ylabel="episode return (mean)")
        format_steps(panels[0, 0])
        if len(returns) > 1:
            panels[0, 0].legend()
        for axes, name in zip(panels[1:, 0], reports, strict=True):
            points = [(line["step"], line[name]) for line in lines if name in line]
            axes.plot(*zip(*points, strict=True), marker=".", color=COLOURS[2])
            report_panel(axes, name, [value for _, value in points])
        add_caption(figure, "Evaluations without exploration: means over episodes, and agents of a group.")
        return save_picture(figure, run_files.path_inside(folder, "curve.png"))
