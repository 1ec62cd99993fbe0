"""The curve of a run, and how pictures are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recollect.errors import OptionError
from recollect.files import own
from recollect.train.loggers import read_metrics
from recollect.train.metrics import evaluations

__all__ = ["draw_curve", "report_panel", "save_picture", "tidy_panels"]


def tidy_panels(panels: Any) -> None:
    """Panels below each other, with as few lines as will do."""
    from matplotlib.ticker import EngFormatter

    panels[-1, 0].set_xlabel("environment steps")
    for axes in panels[:, 0]:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.3)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)


def save_picture(figure: Any, path: str | Path) -> Path:
    """Write a figure and close it, as PNG if the name has no ending, into a folder that is made if need be."""
    from matplotlib import pyplot as plt

    path = Path(path)
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    known = figure.canvas.get_supported_filetypes()
    try:
        if path.suffix[1:].lower() not in known:
            raise OptionError("out", f"end in one of {', '.join(f'.{ending}' for ending in known)}", repr(str(path)))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(own(path), dpi=130)
        return path
    finally:
        plt.close(figure)


def report_panel(axes: Any, name: str, values: Any) -> None:
    """A panel of what environments report; shares from 0 to 1 get all of that."""
    axes.set_ylabel(name.replace("_", " "))
    if min(values) >= 0 and max(values) <= 1:
        axes.set_ylim(-0.03, 1.03)


def draw_curve(folder: Path, title: str) -> Path | None:
    """The returns of evaluations as a picture in the run's folder, and below them what else the environment reports."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    lines, returns, reports = evaluations(read_metrics(folder))
    if not lines:
        return None
    count = len(reports)
    figure, panels = plt.subplots(1 + count, figsize=(7, 4 + 2 * count), layout="constrained", squeeze=False)
    for name in returns:
        points = [(line["step"], line[name]) for line in lines if name in line]
        label = name.rpartition("/")[0] or "return of an agent"
        panels[0, 0].plot(*zip(*points, strict=True), marker=".", label=label)
    panels[0, 0].set(title=title, ylabel="return")
    panels[0, 0].legend()
    for axes, name in zip(panels[1:, 0], reports, strict=True):
        points = [(line["step"], line[name]) for line in lines if name in line]
        axes.plot(*zip(*points, strict=True), marker=".", color="tab:green")
        report_panel(axes, name, [value for _, value in points])
    tidy_panels(panels)
    return save_picture(figure, folder / "curve.png")
