"""``relive tune``: hyperparameter search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from relive.agents import registry
from relive.cli.flags import parsed_settings, whole_number
from relive.cli.importing import import_from_here, import_typed, taken
from relive.cli.process import settle_process
from relive.errors import OptionError
from relive.training import RunConfig
from relive.training.config_file import with_imports
from relive.training.loop import new_folder
from relive.training.settings import resolved
from relive.training.tune import Trial, draw_study, tune

__all__ = ["tune_command"]

_USAGE = """\
usage: relive tune ALGORITHM ENVIRONMENT [--trials N] [--metric NAME] [flags of relive train]

Searches the algorithm's hyperparameter ranges; trials below the median of earlier ones are pruned. Settings given as
flags are fixed. Results go to a new folder under runs/: study.log, trial_N/, study.png, and the best settings as
best.toml for relive train --config. With --folder a stopped study continues."""


def tune_command(arguments: Sequence[str]) -> int:
    """Run ``relive tune`` with these arguments; returns the exit code."""
    left = list(arguments)
    imports = import_typed(left)
    if not left or left[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if left else 2
    algorithm = registry.find(left.pop(0))
    if not left or left[0].startswith("-"):
        raise OptionError("environment", "follow the algorithm", "nothing", "`relive envs` lists them.")
    env = left.pop(0)
    trials = whole_number("--trials", taken(left, "--trials")) if "--trials" in left else 30
    metric = taken(left, "--metric") if "--metric" in left else ""
    if "--steps" not in left:
        left += ["--steps", "200000"]
    chosen = parsed_settings(algorithm, RunConfig(video=False, imports=imports), left)
    if ":" in env:
        import_from_here()
    settle_process(chosen.threads)
    config = with_imports(env, chosen.algorithm, resolved(chosen.algorithm, chosen.run))
    given = {part.removeprefix("--").replace("-", "_") for part in left if part.startswith("--")}
    space = {name: part for name, part in getattr(algorithm, "search_space", {}).items() if name not in given}
    folder = chosen.folder or new_folder(algorithm, env, "tune")
    console = Console()
    console.print(f"{trials} trials of {config.steps:,} steps each in {folder}", highlight=False)

    def notify(trial: Trial, best: Trial) -> None:
        value = "nothing" if trial.value is None else f"{trial.value:.2f}"
        best_so_far = f"best: {best.value:.2f}, trial {best.number}" if best.value is not None else "none is good yet"
        console.print(f"trial {trial.number}  {trial.state}  {value}  ({best_so_far})", highlight=False)

    found = tune(
        chosen.algorithm, env, trials=trials, folder=folder, config=config, metric=metric, search=space, notify=notify
    )
    console.print(_table(found))
    title = f"{algorithm.name} on {env}, {len(found)} trials"
    for path in (draw_study(found, folder / "study.png", title), folder / "best.toml"):
        console.print(f"  {path}", highlight=False)
    console.print(f"train with the best: relive train --config {folder / 'best.toml'} --steps 1e6", highlight=False)
    return 0


def _table(trials: Sequence[Trial], most: int = 10) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("trial", "metric", *trials[0].settings):
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    for trial in trials[:most]:
        value = "" if trial.value is None else f"{trial.value:.2f}"
        shown = value if trial.state == "complete" else f"{value} ({trial.state})"
        table.add_row(str(trial.number), shown, *(_brief(each) for each in trial.settings.values()))
    return table


def _brief(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
