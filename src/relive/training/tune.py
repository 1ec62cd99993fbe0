"""Hyperparameter search: many short runs, with early pruning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from relive.agents.search import Choice, Range, SearchSpace
from relive.errors import MissingExtra, OptionError
from relive.training.callbacks import RunState
from relive.training.config_file import write_config
from relive.training.loop import train
from relive.training.metrics import evaluations
from relive.training.pictures import save_picture
from relive.training.settings import RunConfig
from relive.training.style import add_caption, format_steps, styled

__all__ = ["Trial", "draw_study", "tune"]


@final
@dataclasses.dataclass(frozen=True)
class Trial:
    """One trial: its settings and its result."""

    number: int
    settings: dict[str, Any]
    value: float | None
    """The metric of its last evaluation; None if there was none."""
    state: str
    """complete, pruned or failed."""
    curve: dict[int, float]
    """The metric by steps."""


@final
class _Watch:
    """Reports every evaluation to the study, and stops pruned runs."""

    def __init__(self, trial: Any, metric: str) -> None:
        self._trial, self._metric, self.pruned = trial, metric, False
        self.value: float | None = None

    def on_evaluate(self, run: RunState, metrics: Mapping[str, float]) -> None:
        """Report the metric."""
        self.value = metrics[metric_of(metrics, self._metric)]
        if run.steps == 0:  # the untrained policy says nothing about the settings
            return
        self._trial.report(self.value, run.steps)
        if self._trial.should_prune():
            self.pruned = True
            run.stop()


def tune(
    algorithm: Any,
    env: str,
    *,
    trials: int,
    folder: Path,
    config: RunConfig,
    metric: str = "",
    search: SearchSpace | None = None,
    notify: Callable[[Trial, Trial], None] = lambda *_: None,
) -> list[Trial]:
    """Search hyperparameters; returns all trials, the best first. A folder that holds a study continues it.

    Args:
        metric: The evaluation metric to maximise; by default the return, of the first group if there are several.
        search: The search space; by default the algorithm's.
        notify: Called after each trial with it and the best so far.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise MissingExtra("optuna", "tune") from None
    space = search or getattr(algorithm, "search_space", None)
    if not space:
        raise OptionError("algorithm", "declare a search_space to be tuned", algorithm.name)
    if trials < 1:
        raise OptionError("trials", "be at least 1", trials)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(folder / "study.log"))),
        study_name=f"{algorithm.name}-{env}",
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=config.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=config.steps // 4),
        load_if_exists=True,
    )

    def objective(trial: Any) -> float:
        chosen = {name: _suggest(trial, name, part) for name, part in space.items()}
        trial.set_user_attr("settings", chosen)
        watch = _Watch(trial, metric)
        chosen_algorithm, own = dataclasses.replace(algorithm, **chosen), folder / f"trial_{trial.number}"
        if train(chosen_algorithm, env, folder=own, config=config, callbacks=[watch]).interrupted:
            raise KeyboardInterrupt
        if watch.pruned:
            raise optuna.TrialPruned
        assert watch.value is not None  # a run is always evaluated at its end
        return watch.value

    def listen(study: Any, frozen: Any) -> None:
        done = sorted((_trial(each) for each in study.trials if each.state.is_finished()), key=_order)
        notify(_trial(frozen), done[0])

    done = sum(trial.state.is_finished() for trial in study.trials)
    study.optimize(objective, n_trials=max(trials - done, 0), callbacks=[listen], catch=(ArithmeticError, RuntimeError))
    found = sorted((_trial(each) for each in study.trials if each.state.is_finished()), key=_order)
    if found:
        best = dataclasses.replace(algorithm, **found[0].settings)
        write_config(folder / "best.toml", env, best, config)
    return found


def metric_of(metrics: Mapping[str, float], metric: str) -> str:
    """The name of the metric to maximise."""
    _, returns, reports = evaluations([{**metrics, "step": 0}])
    if not metric:
        return returns[0]
    if metric not in metrics:
        raise OptionError("metric", f"be one of {', '.join((*returns, *reports))}", repr(metric))
    return metric


def draw_study(trials: list[Trial], path: Path, title: str) -> Path:
    """Plot the learning curves of all trials, the best highlighted, and the final metric against each setting."""
    from matplotlib.ticker import NullFormatter

    names = list(trials[0].settings)
    columns = min(len(names), 4)
    rows = -(-len(names) // columns)
    with styled() as new_figure:
        figure = new_figure(figsize=(3 * columns + 1, 4 + 2.4 * rows), layout="constrained")
        grid = figure.add_gridspec(1 + rows, columns, height_ratios=[1.5, *[1] * rows])
        top = figure.add_subplot(grid[0, :])
        for trial in reversed(trials):
            best = trial is trials[0]
            style: dict[str, Any] = {"lw": 2.2, "label": "best trial"} if best else {"color": "0.75", "lw": 1}
            top.plot(list(trial.curve), list(trial.curve.values()), zorder=2 + best, **style)
        top.set(title=title, ylabel="metric")
        format_steps(top)
        top.legend()
        for place, name in enumerate(names):
            axes = figure.add_subplot(grid[1 + place // columns, place % columns])
            known = [(trial.settings[name], trial.value) for trial in trials if trial.value is not None]
            values = [_number(value) for value, _ in known]
            axes.scatter(values, [value for _, value in known], s=12)
            floats = all(isinstance(value, float) for value, _ in known)
            if floats and min(values) > 0 and max(values) > 20 * min(values):
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(name)
            if place % columns == 0:
                axes.set_ylabel("final metric")
        add_caption(figure, "Top: every trial's evaluations. Below: each trial's final metric against its settings.")
        return save_picture(figure, path)


def _suggest(trial: Any, name: str, part: Range | Choice) -> Any:
    if isinstance(part, Choice):  # by number: a choice may be anything, a study keeps plain values
        return part.values[trial.suggest_categorical(name, list(range(len(part.values))))]
    if isinstance(part.low, int) and isinstance(part.high, int):
        return trial.suggest_int(name, part.low, part.high, log=part.log)
    return trial.suggest_float(name, part.low, part.high, log=part.log)


def _trial(frozen: Any) -> Trial:
    curve = {int(step): float(value) for step, value in frozen.intermediate_values.items()}
    value = frozen.value if frozen.value is not None else next(reversed(curve.values()), None)
    settings = {name: _tuple(each) for name, each in frozen.user_attrs.get("settings", {}).items()}
    return Trial(frozen.number, settings, value, frozen.state.name.lower(), curve)


def _order(trial: Trial) -> tuple[bool, float]:
    """Sort key: complete trials first, then by value."""
    return trial.state != "complete", -(trial.value if trial.value is not None else float("-inf"))


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else str(value)
