"""``recollect train``: flags to settings, and what is shown while a run goes."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import sys
import textwrap
import time
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, final

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from recollect.cli.importing import import_from_here
from recollect.errors import OptionError
from recollect.learn.factories import named_module
from recollect.train import ALGORITHMS, Result, RunConfig, checkpoint, resume, run
from recollect.train.curves import draw_runs
from recollect.train.loop import new_folder, same_settings
from recollect.train.settings import as_data, read_config, resolved
from recollect.train.trust import check_trust

__all__ = ["notified_run", "train"]

_USAGE = """\
usage: recollect train ALGORITHM ENVIRONMENT [flags]
       recollect train --config FILE.toml [--trust] [flags]
       recollect train --resume RUN [--steps N] [--device D] [--trust]

Trains an algorithm on an environment. Everything is kept in a folder of its own under runs/:
config.toml, metrics.jsonl, tensorboard/, checkpoints, curve.png, and at the end episode.gif.

algorithms: {algorithms}
environments: recollect envs lists them

recollect train {first} --help shows the flags of an algorithm."""


_OTHERS = {
    "folder": "Where everything is kept, instead of a new folder under runs/.",
    "option": "An option of the environment, such as N=5; may be given several times.",
    "seeds": "Train once with each of these seeds, then draw all of them as one curve.",
    "preset": "Settings of published code; other flags go on top.",
}


def train(arguments: Sequence[str]) -> int:
    """Run ``recollect train`` with these arguments; returns the exit code."""
    left = [part for text in arguments for part in _apart(text)]
    names = ", ".join(ALGORITHMS)
    if not left or (left[0] in ("-h", "--help")):
        print(_USAGE.format(algorithms=names, first=next(iter(ALGORITHMS))))
        return 0 if left else 2
    trust = "--trust" in left
    left = [part for part in left if part != "--trust"]
    if trust:
        import_from_here()
    if "--resume" in left:
        return _resume(left, trust=trust)
    if "--config" in left:
        path = Path(_taken(left, "--config"))
        env, algorithm, settings = read_config(path)
        flags = {part.partition("=")[0] for part in left}
        typed = {name for name in as_data(algorithm) if f"--{name.replace('_', '-')}" in flags}
        named = {name: value for name, value in as_data(algorithm).items() if name not in typed}
        check_trust(env, named, path, trust=trust)
    else:
        algorithm = ALGORITHMS[_nearest("algorithm", left.pop(0), ALGORITHMS)]
        env, settings = "", RunConfig()
        if left and not left[0].startswith("-"):
            env = left.pop(0)
        elif "-h" not in left and "--help" not in left:
            raise OptionError("environment", "follow the algorithm", "nothing", "`recollect envs` lists them.")
    chosen = _flags(_preset(algorithm, left), settings, left)
    options = {**settings.env_options, **dict(map(_option, chosen.option))}
    settings = resolved(chosen.algorithm, dataclasses.replace(chosen.run, env_options=options))
    if ":" in env or any(map(named_module, as_data(chosen.algorithm).values())):
        import_from_here()
    if not chosen.seeds:
        return notified_run(chosen.algorithm, env, settings, chosen.folder)
    if len(set(chosen.seeds)) < len(chosen.seeds):
        raise OptionError("seeds", "differ", " ".join(map(str, chosen.seeds)))
    folder = chosen.folder or new_folder(chosen.algorithm, env, "seeds")
    for seed in chosen.seeds:
        print(f"seed {seed}")
        code = _begun(chosen, env, dataclasses.replace(settings, seed=seed), folder / f"seed_{seed}")
        if code:
            return code
    print(draw_runs([folder / f"seed_{seed}" for seed in chosen.seeds], folder / "curve.png"))
    return 0


def notified_run(algorithm: Any, env: str, settings: RunConfig, folder: Path | None = None) -> int:
    """One run, shown while it goes; returns the exit code."""
    return _report(_shown(lambda progress: run(algorithm, env, config=settings, folder=folder, progress=progress)))


def _begun(chosen: _Flags, env: str, settings: RunConfig, folder: Path) -> int:
    """One of several runs: a new one, or one that goes on if it was stopped."""
    if not checkpoint.exists(folder):
        return notified_run(chosen.algorithm, env, settings, folder)
    if not same_settings(read_config(folder / "config.toml"), (env, chosen.algorithm, settings)):
        raise OptionError("folder", "hold runs of these settings, to go on with them", str(folder), "Choose another.")
    if checkpoint.load_checkpoint(folder)["steps"] >= settings.steps:
        print(f"  {folder} is done")
        return 0
    # The environment is the one that was typed, or agreed to.
    return _report(_shown(lambda progress: resume(folder, progress=progress, trust=True)))


@final
@dataclasses.dataclass(frozen=True)
class _Flags:
    """What the flags say."""

    algorithm: Any
    run: Any
    folder: Path | None
    option: tuple[str, ...]
    seeds: tuple[int, ...]


def _flags(algorithm: Any, settings: RunConfig, arguments: Sequence[str]) -> _Flags:
    """Settings changed by flags."""
    kind = type(algorithm)
    # The fields of both side by side; the environment's options have a flag of their own.
    fields: list[Any] = [
        (f.name, f.type, dataclasses.field(default=getattr(given, f.name)))
        for given in (settings, algorithm)
        for f in _typed(given)
        if f.name != "env_options"
    ]
    fields += [
        ("folder", Path | None, dataclasses.field(default=None)),
        ("option", tyro.conf.UseAppendAction[tuple[str, ...]], dataclasses.field(default=())),
        ("seeds", tuple[int, ...], dataclasses.field(default=())),
    ]
    presets = getattr(algorithm, "presets", {})
    if presets:  # taken already: here for --help
        fields.append(("preset", Literal[tuple(presets)] | None, dataclasses.field(default=None)))
    made: Any = dataclasses.make_dataclass("flags", fields, frozen=True)
    made.__doc__ = _documented(algorithm.summary, type(settings), kind)
    found = tyro.cli(made, args=list(arguments), prog=f"recollect train {algorithm.name} ENVIRONMENT")
    own = {f.name for f in dataclasses.fields(algorithm)}
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    return _Flags(
        dataclasses.replace(algorithm, **{n: v for n, v in values.items() if n in own}),
        dataclasses.replace(settings, **{n: v for n, v in values.items() if n not in {*own, *_OTHERS}}),
        found.folder,
        found.option,
        found.seeds,
    )


@final
@dataclasses.dataclass(frozen=True)
class _Typed:
    name: str
    type: Any


def _typed(settings: Any) -> list[_Typed]:
    """Fields with their types, not the names of these."""
    hints = typing.get_type_hints(type(settings), include_extras=True)
    # A part of one's own is a name here; in Python it may be a function too.
    return [_Typed(f.name, str if hints[f.name] is Any else hints[f.name]) for f in dataclasses.fields(settings)]


def _documented(line: str, *kinds: type[Any]) -> str:
    """What each field means, from the texts below them, as flags' help."""
    lines = [line, "", "Args:"]
    for kind in kinds:
        for name, text in _texts(kind).items():
            lines.append(f"    {name}: {text}")
    lines += [f"    {name}: {text}" for name, text in _OTHERS.items()]
    return "\n".join(lines)


def _texts(kind: type[Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, text in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = str(ast.literal_eval(text.value))
    return found


def _preset(algorithm: Any, arguments: list[str]) -> Any:
    """Settings as some published code has them, if that is asked for."""
    if "--preset" not in arguments:
        return algorithm
    presets = getattr(algorithm, "presets", {})
    if not presets:
        raise OptionError("--preset", "be for an algorithm that has presets", algorithm.name)
    return dataclasses.replace(algorithm, **presets[_nearest("preset", _taken(arguments, "--preset"), presets)])


def _resume(arguments: list[str], *, trust: bool) -> int:
    folder = _taken(arguments, "--resume")
    steps = None
    if "--steps" in arguments:
        given = _taken(arguments, "--steps")
        try:
            steps = int(given.replace("_", ""))
        except ValueError:
            raise OptionError("--steps", "be a whole number", repr(given)) from None
    device = _taken(arguments, "--device") if "--device" in arguments else None
    if arguments:
        rule = "be --steps, --device or --trust beside --resume"
        raise OptionError("flag", rule, arguments[0], "A run goes on with its own settings.")
    return _report(_shown(lambda progress: resume(folder, steps=steps, device=device, progress=progress, trust=trust)))


def _taken(arguments: list[str], flag: str) -> str:
    """The value after a flag; both are taken out."""
    place = arguments.index(flag)
    if place + 1 >= len(arguments):
        raise OptionError(flag, "be followed by a value", "nothing")
    value = arguments[place + 1]
    del arguments[place : place + 2]
    return value


def _apart(text: str) -> list[str]:
    """``--config=FILE`` as two."""
    flag, equals, value = text.partition("=")
    return [flag, value] if equals and flag in ("--config", "--resume", "--preset") else [text]


def _nearest(what: str, name: str, known: Mapping[str, Any]) -> str:
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, 1, 0.5)
    remedy = f"Did you mean {near[0]!r}?" if near else ""
    raise OptionError(what, f"be one of {', '.join(known)}", repr(name), remedy)


def _option(text: str) -> tuple[str, Any]:
    """``N=5`` as a name and a value: a number, true or false, or else text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionError("option", "be given as NAME=VALUE", repr(text))
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def _shown(go: Callable[[Any], Result]) -> Result:
    """Run something and show how far it is: a bar on a terminal, lines elsewhere."""
    console = Console()
    if not console.is_terminal:
        return go(_Lines())
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[metrics]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as bars:
        task = bars.add_task("", total=None, speed="", metrics="")
        begun = (time.monotonic(), -1)

        def progress(steps: int, total: int, metrics: Mapping[str, float]) -> None:
            nonlocal begun
            if begun[1] < 0:
                begun = (time.monotonic(), steps)
            speed = (steps - begun[1]) / max(time.monotonic() - begun[0], 1e-9)
            bars.update(
                task, total=total, completed=steps, speed=f"{speed:,.0f} steps/s", metrics=_shown_metrics(metrics)
            )

        return go(progress)


@final
class _Lines:
    """A line whenever there are new metrics."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._first: int | None = None
        self._last: Mapping[str, float] = {}

    def __call__(self, steps: int, total: int, metrics: Mapping[str, float]) -> None:
        if self._first is None:  # whatever the metrics are, they are from before
            self._first, self._last = steps, metrics
        if metrics is not self._last and metrics:
            speed = (steps - self._first) / max(time.monotonic() - self._start, 1e-9)
            print(f"{steps:>10,} of {total:,} steps  {speed:,.0f} steps/s  {_shown_metrics(metrics)}", flush=True)
        self._last = metrics


def _shown_metrics(metrics: Mapping[str, float]) -> str:
    """The returns, and the win rate where there is one."""
    shown = {name: value for name, value in metrics.items() if name.split("/")[-1] in ("return", "battle_won")}
    return "  ".join(f"{name} {value:.2f}" for name, value in shown.items())


def _report(result: Result) -> int:
    """Say where everything is."""
    folder = result.folder
    if result.interrupted:
        print(f"stopped after {result.steps:,} steps; go on with: recollect train --resume {folder}", file=sys.stderr)
        return 128 + result.signal
    print(f"{result.steps:,} steps  {_shown_metrics(result.metrics)}")
    for name in ("curve.png", "episode.gif"):
        if (folder / name).exists():
            print(f"  {folder / name}")
    print(f"  {folder}")
    return 0
