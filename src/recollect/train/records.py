"""What a run writes down: metrics as lines of JSON and for TensorBoard, and the curve."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from recollect.errors import OptionError
from recollect.train.files import own, put

__all__ = ["WON", "Records", "draw_curve", "plain", "read_metrics", "save_picture"]

WON = "battle_won"
"""What environments that can be won report."""


@final
class Records:
    """Metrics of a run, kept in its folder.

    Args:
        after: Steps after which lines of an earlier part of the run are dropped, because they will be written again.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._path = folder / "metrics.jsonl"
        kept = [line for line in read_metrics(folder) if after is not None and line["step"] <= after]
        put(self._path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._events = own(folder / "tensorboard")
        self._board: Any = SummaryWriter(str(self._events), purge_step=None if after is None else after + 1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write values down."""
        with open(self._path, "a") as file:
            file.write(json.dumps({**values, "step": step}) + "\n")
        if self._board is None:
            return
        try:
            if not self._events.is_dir():  # found here rather than by the thread that writes
                raise FileNotFoundError(self._events)
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
            self._board.flush()
        except Exception as error:  # its folder was removed: no reason to end a run
            warnings.warn(f"TensorBoard's files are not written any more: {error}", stacklevel=2)
            self._board = None

    def close(self) -> None:
        """Let go of the files."""
        if self._board is not None:
            with contextlib.suppress(Exception):
                self._board.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics; a last one that was cut short is left out."""
    path = folder / "metrics.jsonl"
    found = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                read = json.loads(line)
            except ValueError:
                break
            if not isinstance(read, dict) or "step" not in read:
                break
            found.append(read)
    return found


def plain(panels: Any) -> None:
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


def draw_curve(folder: Path, title: str) -> Path | None:
    """The returns of evaluations as a picture in the run's folder, and the share of battles won where there are any."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    lines = read_metrics(folder)
    names = [name for name in (lines[0] if lines else {}) if name.split("/")[-1] == "return"]
    if not names:
        return None
    won = [(line["step"], line[WON]) for line in lines if WON in line]
    figure, panels = plt.subplots(1 + bool(won), figsize=(7, 4 + 2 * bool(won)), layout="constrained", squeeze=False)
    returns = panels[0, 0]
    for name in names:
        points = [(line["step"], line[name]) for line in lines if name in line]
        returns.plot(*zip(*points, strict=True), marker=".", label=name.rpartition("/")[0] or "return of an agent")
    returns.set(title=title, ylabel="return")
    returns.legend()
    if won:
        panels[1, 0].plot(*zip(*won, strict=True), marker=".", color="tab:green")
        panels[1, 0].set(ylabel="battles won", ylim=(-0.03, 1.03))
    plain(panels)
    return save_picture(figure, folder / "curve.png")
