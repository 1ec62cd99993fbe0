"""The style of every plot: fonts, colours, grid, captions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "add_caption", "format_steps", "styled"]

COLOURS = ("#1c7ed6", "#e8590c", "#2f9e44", "#ae3ec9", "#e03131", "#0b7285", "#f08c00", "#5f3dc4", "#868e96", "#212529")
"""Colours of lines, in order; neighbours differ in lightness too, for print and colour-blind readers."""

_MUTED = "#5c636a"

_SETTINGS: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelcolor": _MUTED,
    "axes.edgecolor": "#adb5bd",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e9ecef",
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 130,
}


@contextmanager
def styled() -> Iterator[type[Figure]]:
    """A context in the style, and the class of figures that are drawn to files.

    Not by ``pyplot``, whose backend is the caller's: a notebook goes on to show plots after a run has drawn its curve.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler

    with mpl.rc_context({**_SETTINGS, "axes.prop_cycle": cycler("color", COLOURS)}):
        yield Figure


def add_caption(figure: Figure, text: str) -> None:
    """Write a caption below a figure in constrained layout."""
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=_MUTED)


def format_steps(axes: Axes, label: str = "environment steps") -> None:
    """Label an axis of steps, with k and M for thousands and millions."""
    from matplotlib.ticker import EngFormatter

    axes.set_xlabel(label)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
