"""Loggers of metrics: JSON lines, CSV, TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, final

from relive import run_files
from relive.errors import MissingExtra, OptionError
from relive.training.metrics import PREFIXES

__all__ = ["LOGGERS", "JsonLines", "Logger", "Records", "charted", "check_installed", "check_loggers", "read_metrics"]


_METRICS, _TABLE = "metrics.jsonl", "metrics.csv"
_MOST = 1 << 30  # bytes of metrics
_PLAYED = {"return": "ep_rew_mean", "length": "ep_len_mean"}
_JUDGED = {"return": "mean_reward", "length": "mean_ep_length"}


def charted(values: Mapping[str, float]) -> dict[str, float]:
    """Metrics by Stable-Baselines3's names, where it has any; evaluations under ``eval``.

    >>> charted({"return": 500.0, "train/return": 431.0, "prey/return": -3.0, "train/loss": 0.1})
    {'eval/mean_reward': 500.0, 'rollout/ep_rew_mean': 431.0, 'eval/prey/mean_reward': -3.0, 'train/loss': 0.1}
    """
    return {_charted(name): value for name, value in values.items()}


def _charted(name: str) -> str:
    *above, last = name.split("/")
    if name == "time/steps_per_second":
        return "time/fps"
    if above[:1] == ["train"] and last in _PLAYED:
        return "/".join(["rollout", *above[1:], _PLAYED[last]])
    return name if [*above, last][0] in PREFIXES else "/".join(["eval", *above, _JUDGED.get(last, last)])


class Logger(Protocol):
    """The logger interface."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Log the metrics of a step."""

    def close(self) -> None:
        """Flush and close."""


@final
class Records:
    """All loggers of a run, in its folder.

    Args:
        names: Of loggers, besides the lines of JSON.
        about: The run's settings, for loggers that keep them.
        after: The step that a run is resumed from: later lines are dropped, because they will be written again.
    """

    def __init__(
        self, folder: Path, names: tuple[str, ...], about: Mapping[str, Any], after: int | None = None
    ) -> None:
        self._lines = JsonLines(folder, after)
        self._others = {name: LOGGERS[name](folder, about, after) for name in names}

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Log metrics. A logger that fails is dropped with a warning."""
        self._lines.write(step, values)
        for name, logger in list(self._others.items()):
            try:
                logger.write(step, values)
            except Exception as error:
                warnings.warn(f"{name} is not written to any more: {error}", stacklevel=2)
                del self._others[name]

    def close(self) -> None:
        """Close all loggers."""
        for logger in self._others.values():
            with contextlib.suppress(Exception):
                logger.close()


@final
class JsonLines:
    """A line of JSON for each step that has metrics: ``metrics.jsonl``."""

    def __init__(self, folder: Path, after: int | None) -> None:
        self._folder = folder
        kept = [line for line in read_metrics(folder) if after is not None and line["step"] <= after]
        run_files.write(folder, _METRICS, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write a line."""
        run_files.append(self._folder, _METRICS, json.dumps({**values, "step": step}) + "\n")

    def close(self) -> None:
        """Every line is there already."""


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics; an incomplete last one is left out."""
    found: list[dict[str, Any]] = []
    if not run_files.has_file(folder, _METRICS):
        return found
    for line in run_files.read(folder, _METRICS, _MOST).decode(errors="replace").splitlines():
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(read, dict) or type(read.get("step")) is not int:
            break
        found.append(read)
    return found


@final
class Csv:
    """A table with a column for each metric, rewritten when columns are added: ``metrics.csv``."""

    def __init__(self, folder: Path, _about: Mapping[str, Any], _after: int | None) -> None:
        self._folder = folder
        self._names: list[str] = []

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add a row; where it has new columns, or rows from before are there, write all of them."""
        if self._names and set(values) <= set(self._names):
            with run_files.open_file(self._folder, _TABLE, "a") as file:
                csv.DictWriter(file, self._names).writerow({**values, "step": step})
            return
        lines = read_metrics(self._folder)
        self._names = list(dict.fromkeys(["step", *(name for line in lines for name in line), *values]))
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, self._names)
        table.writeheader()
        table.writerows(lines)
        run_files.write(self._folder, _TABLE, text.getvalue().encode())

    def close(self) -> None:
        """Every row is there already."""


@final
class TensorBoard:
    """Events for TensorBoard, in ``tensorboard/``."""

    def __init__(self, folder: Path, _about: Mapping[str, Any], after: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._events = run_files.make_folder(folder, "tensorboard")
        self._board: Any = SummaryWriter(str(self._events), purge_step=None if after is None else after + 1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add scalars."""
        if not self._events.is_dir():  # found here rather than by the thread that writes
            raise FileNotFoundError(self._events)
        for name, value in charted(values).items():
            self._board.add_scalar(name, value, step)
        self._board.flush()

    def close(self) -> None:
        """Close the file."""
        self._board.close()


@final
class Wandb:
    """A run of Weights & Biases, online or offline as ``WANDB_MODE`` says; files are in ``wandb/``."""

    def __init__(self, folder: Path, about: Mapping[str, Any], _after: int | None) -> None:
        import wandb

        name = str(about.get("name", folder.name))
        self._run = wandb.init(
            project="relive",
            name=name,
            dir=str(run_files.path_inside(folder, "wandb").parent),
            config=dict(about),
            reinit="create_new",
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add a row."""
        self._run.log({**charted(values), "step": step}, step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()


@final
class MLflow:
    """A run of MLflow, where ``MLFLOW_TRACKING_URI`` says, else in ``mlruns.db`` of the folder."""

    def __init__(self, folder: Path, about: Mapping[str, Any], _after: int | None) -> None:
        from mlflow.tracking import MlflowClient

        where = (
            os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{run_files.path_inside(folder, 'mlruns.db').resolve()}"
        )
        self._client = MlflowClient(where)
        known = self._client.get_experiment_by_name("relive")
        experiment = known.experiment_id if known is not None else self._client.create_experiment("relive")
        self._run = self._client.create_run(experiment, run_name=str(about.get("name", folder.name))).info.run_id
        for key, value in about.items():
            self._client.log_param(self._run, key, value)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add metrics."""
        for name, value in charted(values).items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)


LOGGERS: dict[str, Callable[[Path, Mapping[str, Any], int | None], Logger]] = {
    "tensorboard": TensorBoard,
    "csv": Csv,
    "wandb": Wandb,
    "mlflow": MLflow,
}
"""What ``--log`` takes."""


def check_loggers(names: tuple[str, ...]) -> None:
    """Refuse unknown loggers."""
    for name in names:
        if name not in LOGGERS:
            raise OptionError("log", f"be some of {', '.join(LOGGERS)}", repr(name))


def check_installed(names: tuple[str, ...]) -> None:
    """Refuse loggers whose packages are not installed."""
    for name in names:
        if name in ("wandb", "mlflow") and importlib.util.find_spec(name) is None:
            raise MissingExtra(name, name)
