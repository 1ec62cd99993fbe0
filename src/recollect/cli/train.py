"""``recollect train``: flags, progress and the final report."""

from __future__ import annotations

import ast
import collections
import dataclasses
import inspect
import sys
import textwrap
import time
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, final

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from recollect.agents import registry
from recollect.cli.importing import import_from_here, import_typed, taken
from recollect.cli.process import settle_process
from recollect.errors import OptionError
from recollect.learn.factories import named_module
from recollect.train import Result, RunConfig, checkpoint, resume, run
from recollect.train.config_file import describe, read_config, same_settings, with_imports
from recollect.train.curves import draw_runs
from recollect.train.loop import new_folder
from recollect.train.metrics import evaluations
from recollect.train.settings import as_data, resolved
from recollect.wording import did_you_mean

__all__ = ["notified_run", "parsed_settings", "train", "whole_number"]

_USAGE = """\
usage: recollect train ALGORITHM ENVIRONMENT [flags]
       recollect train --config FILE.toml [--trust] [flags]
       recollect train --resume RUN [--steps N] [--device D] [--trust]

--import MODULE imports a module that registers custom algorithms or environments.

Trains an algorithm on an environment. Results go to a new folder under runs/:
config.toml, metrics.jsonl, tensorboard/, checkpoints, curve.png, and at the end episode.gif.

algorithms: {algorithms}
environments: recollect envs lists them

recollect train {first} --help shows the flags of an algorithm."""


_SYNONYMS = {
    "learning_rate": ("lr", "actor_lr", "critic_lr"),
    "total_timesteps": ("steps",),
    "n_envs": ("num_envs",),
    "buffer_size": ("capacity",),
    "discount": ("gamma",),
    "n_steps": ("rollout", "n_step"),
}
"""Other libraries' names of settings."""
_OTHERS = {
    "folder": "The run's folder, instead of a new one under runs/.",
    "option": "An option of the environment, such as N=5; may be repeated.",
    "threads": "Torch threads. One is fastest for small networks.",
    "seeds": "Train with each of these seeds, then plot all of them as one curve.",
    "preset": "Settings of published code, which other flags override.",
}


def train(arguments: Sequence[str]) -> int:
    """Run ``recollect train`` with these arguments; returns the exit code."""
    left = [part for text in arguments for part in _apart(text)]
    imports = import_typed(left)
    if not left or (left[0] in ("-h", "--help")):
        known = registry.algorithms()
        print(_USAGE.format(algorithms=", ".join(known), first=next(iter(known))))
        return 0 if left else 2
    trust = "--trust" in left
    left = [part for part in left if part != "--trust"]
    if trust:
        import_from_here()
    if "--resume" in left:
        return _resume(left, trust=trust)
    if "--config" in left:
        path = Path(taken(left, "--config"))
        flags = {part.partition("=")[0].removeprefix("--").replace("-", "_") for part in left}
        env, algorithm, settings = read_config(path, trust=trust, given=flags)
    else:
        algorithm = registry.find(left.pop(0))
        env, settings = "", RunConfig()
        if left and not left[0].startswith("-"):
            env = left.pop(0)
        elif "-h" not in left and "--help" not in left:
            raise OptionError("environment", "follow the algorithm", "nothing", "`recollect envs` lists them.")
    settings = dataclasses.replace(settings, imports=tuple(dict.fromkeys((*settings.imports, *imports))))
    chosen = parsed_settings(algorithm, settings, left)
    settings = with_imports(env, chosen.algorithm, resolved(chosen.algorithm, chosen.run))
    if ":" in env or any(map(named_module, as_data(chosen.algorithm).values())):
        import_from_here()
    settle_process(chosen.threads)
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


def parsed_settings(algorithm: Any, settings: RunConfig, arguments: list[str]) -> _Flags:
    """Settings of an algorithm and of a run, overridden by flags."""
    preset = _preset(algorithm, arguments)
    _refuse_synonyms(arguments, {f.name for kind in (preset, settings) for f in dataclasses.fields(kind)})
    chosen = _flags(preset, settings, _plain_numbers(_plain_numbers(arguments, settings), preset))
    options = {**settings.env_options, **dict(map(_option, chosen.option))}
    run = dataclasses.replace(chosen.run, env_options=options, imports=settings.imports)
    return dataclasses.replace(chosen, run=run)


def notified_run(algorithm: Any, env: str, settings: RunConfig, folder: Path | None = None) -> int:
    """One run with progress; returns the exit code."""
    return _report(_shown(lambda progress: run(algorithm, env, config=settings, folder=folder, progress=progress)))


def _begun(chosen: _Flags, env: str, settings: RunConfig, folder: Path) -> int:
    """One of several runs: a new one, or a stopped one resumed."""
    if not checkpoint.exists(folder):
        return notified_run(chosen.algorithm, env, settings, folder)
    if not same_settings(folder / "config.toml", env, chosen.algorithm, settings):
        raise OptionError("folder", "hold runs of these settings, to go on with them", str(folder), "Choose another.")
    if checkpoint.load_checkpoint(folder)["steps"] >= settings.steps:
        print(f"  {folder} is done")
        return 0
    # The environment was typed, or trusted.
    return _report(_shown(lambda progress: resume(folder, progress=progress, trust=True)))


@final
@dataclasses.dataclass(frozen=True)
class _Flags:
    """Parsed flags."""

    algorithm: Any
    run: Any
    folder: Path | None
    option: tuple[str, ...]
    seeds: tuple[int, ...]
    threads: int


def _flags(algorithm: Any, settings: RunConfig, arguments: Sequence[str]) -> _Flags:
    """Settings overridden by flags."""
    kind = type(algorithm)
    # The fields of both side by side; the environment's options and imports have flags of their own.
    fields: list[Any] = [
        (f.name, f.type, dataclasses.field(default=getattr(given, f.name)))
        for given in (settings, algorithm)
        for f in _typed(given)
        if f.name not in ("env_options", "imports")
    ]
    fields += [
        ("folder", Path | None, dataclasses.field(default=None)),
        ("option", tyro.conf.UseAppendAction[tuple[str, ...]], dataclasses.field(default=())),
        ("seeds", tuple[int, ...], dataclasses.field(default=())),
        ("threads", int, dataclasses.field(default=1)),
    ]
    presets = getattr(algorithm, "presets", {})
    if presets:  # parsed already: listed for --help
        fields.append(("preset", Literal[tuple(presets)] | None, dataclasses.field(default=None)))
    made: Any = dataclasses.make_dataclass("flags", fields, frozen=True)
    made.__doc__ = _documented(registry.summary(algorithm), type(settings), kind)
    found = tyro.cli(made, args=list(arguments), prog=f"recollect train {algorithm.name} ENVIRONMENT")
    own = {f.name for f in dataclasses.fields(algorithm)}
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    return _Flags(
        dataclasses.replace(algorithm, **{n: v for n, v in values.items() if n in own}),
        dataclasses.replace(settings, **{n: v for n, v in values.items() if n not in {*own, *_OTHERS}}),
        found.folder,
        found.option,
        found.seeds,
        found.threads,
    )


@final
@dataclasses.dataclass(frozen=True)
class _Typed:
    name: str
    type: Any


def _typed(settings: Any) -> list[_Typed]:
    """Fields with resolved types."""
    hints = typing.get_type_hints(type(settings), include_extras=True)
    # A custom network is named on the command line; in Python it may be a function too.
    return [_Typed(f.name, str if hints[f.name] is Any else hints[f.name]) for f in dataclasses.fields(settings)]


def _documented(line: str, *kinds: type[Any]) -> str:
    """Help of flags, from the docstrings of fields."""
    lines = [line, "", "Args:"]
    for kind in kinds:
        for name, text in _texts(kind).items():
            lines.append(f"    {name}: {text}")
    lines += [f"    {name}: {text}" for name, text in _OTHERS.items()]
    return "\n".join(lines)


def _texts(kind: type[Any]) -> dict[str, str]:
    """Docstrings of a dataclass's fields, inherited from its bases where it has none."""
    found: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(part):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in pairwise(body.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def _preset(algorithm: Any, arguments: list[str]) -> Any:
    """The settings of ``--preset``, if given."""
    if "--preset" not in arguments:
        return algorithm
    presets = getattr(algorithm, "presets", {})
    if not presets:
        raise OptionError("--preset", "be for an algorithm that has presets", algorithm.name)
    return dataclasses.replace(algorithm, **presets[_nearest("preset", taken(arguments, "--preset"), presets)])


def _resume(arguments: list[str], *, trust: bool) -> int:
    folder = taken(arguments, "--resume")
    steps = whole_number("--steps", taken(arguments, "--steps")) if "--steps" in arguments else None
    device = taken(arguments, "--device") if "--device" in arguments else None
    settle_process(whole_number("--threads", taken(arguments, "--threads")) if "--threads" in arguments else 1)
    if arguments:
        rule = "be --steps, --device, --threads, --import or --trust beside --resume"
        raise OptionError("flag", rule, arguments[0], "A resumed run keeps its settings.")
    return _report(_shown(lambda progress: resume(folder, steps=steps, device=device, progress=progress, trust=trust)))


def whole_number(flag: str, text: str) -> int:
    """An integer, written as 1000000, 1_000_000 or 1e6."""
    try:
        number = float(text.replace("_", "").replace(",", ""))
        if number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise OptionError(flag, "be a whole number", repr(text)) from None
    return int(number)


def _plain_numbers(arguments: list[str], settings: Any) -> list[str]:
    """Arguments with integers such as 1e6 written out, for integer settings."""
    known = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    whole = {f"--{name.replace('_', '-')}" for name, value in known.items() if type(value) is int}
    made = list(arguments)
    for place, flag in enumerate(made[:-1]):
        if flag in whole and any(letter in made[place + 1].lower() for letter in "e_."):
            made[place + 1] = str(whole_number(flag, made[place + 1]))
    return made


def _refuse_synonyms(arguments: list[str], known: Set[str]) -> None:
    """Refuse a flag that is another library's name for one of the known settings."""
    for argument in arguments:
        flag = argument.partition("=")[0]
        name = flag.removeprefix("--").replace("-", "_")
        meant = [f"--{each.replace('_', '-')}" for each in _SYNONYMS.get(name, ()) if each in known]
        if flag.startswith("--") and name not in known and meant:
            raise OptionError("flag", "be one of this algorithm's", flag, f"Did you mean {' or '.join(meant)}?")


def _apart(text: str) -> list[str]:
    """``--config=FILE`` as two."""
    flag, equals, value = text.partition("=")
    return [flag, value] if equals and flag in ("--config", "--resume", "--preset", "--import") else [text]


def _nearest(what: str, name: str, known: Mapping[str, Any]) -> str:
    if name in known:
        return name
    remedy = did_you_mean(name, known)
    raise OptionError(what, f"be one of {', '.join(known)}", repr(name), remedy)


def _option(text: str) -> tuple[str, Any]:
    """``N=5`` as a name and a value: a number, a boolean, or else text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionError("option", "be given as NAME=VALUE", repr(text))
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def _shown(go: Callable[[Any], Result]) -> Result:
    """Run with progress: a bar on a terminal, lines elsewhere."""
    console = Console()
    if not console.is_terminal:
        return go(_Lines())
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("{task.fields[times]}"),
        TextColumn("{task.fields[metrics]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as bars:
        task = bars.add_task("", total=None, speed="", times="", metrics="")
        clock = _Clock()

        def progress(steps: int, total: int, metrics: Mapping[str, float]) -> None:
            speed, elapsed, left = clock.tick(steps, total)
            times = f"{_time(elapsed)} elapsed, {_time(left)} left"
            shown: dict[str, Any] = {"speed": f"{speed:,.0f} steps/s", "times": times}
            bars.update(task, total=total, completed=steps, metrics=_shown_metrics(metrics), **shown)

        return go(progress)


@final
class _Clock:
    """Speed and remaining time, by the last tenth of the run, so that its start does not count later."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._marks: collections.deque[tuple[float, int]] = collections.deque()

    def tick(self, steps: int, total: int) -> tuple[float, float, float | None]:
        """Steps per second, seconds elapsed, and seconds left if known."""
        now = time.monotonic()
        marks = self._marks
        if not marks or now - marks[-1][0] > 0.2 or steps >= total:
            marks.append((now, steps))
        while len(marks) > 2 and marks[0][1] < steps - total / 10 and now - marks[0][0] > 2:
            marks.popleft()
        speed = (steps - marks[0][1]) / max(now - marks[0][0], 1e-9) if len(marks) > 1 else 0.0
        left = (total - steps) / speed if speed else None
        return speed, now - self._begun, left


def _time(seconds: float | None) -> str:
    """Minutes and seconds, with hours where there are any.

    >>> _time(65), _time(3725), _time(None)
    ('1:05', '1:02:05', '?')
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@final
class _Lines:
    """Progress as lines, one for each evaluation."""

    def __init__(self) -> None:
        self._clock = _Clock()
        self._last: Mapping[str, float] | None = None

    def __call__(self, steps: int, total: int, metrics: Mapping[str, float]) -> None:
        speed, elapsed, left = self._clock.tick(steps, total)
        if self._last is None:  # a resumed run's metrics are old
            self._last = metrics if steps else {}
        if metrics is not self._last and metrics:
            times = f"{_time(elapsed)} elapsed, {_time(left)} left"
            speeds = f"{speed:,.0f} steps/s  {times}" if steps else "before learning"
            print(f"{steps:>10,} of {total:,} steps  {speeds}  {_shown_metrics(metrics)}", flush=True)
        self._last = metrics


def _shown_metrics(metrics: Mapping[str, float]) -> str:
    """Returns, and other metrics that the environment reports."""
    _, returns, reports = evaluations([{**metrics, "step": 0}])
    return "  ".join(f"{name} {metrics[name]:.2f}" for name in (*returns, *reports))


def _report(result: Result) -> int:
    """Print the results, their paths, and the next commands."""
    folder = result.folder
    described = describe(folder / "config.toml")
    own = "".join(f" --import {name}" for name in described.run.get("imports", ()))
    own += " --trust" if any(named_module(value) for value in described.settings.values()) else ""
    if result.interrupted:
        go_on = f"recollect train --resume {folder}{own}"
        print(f"stopped after {result.steps:,} steps; resume with: {go_on}", file=sys.stderr)
        return 128 + result.signal
    print(f"{result.steps:,} steps  {_shown_metrics(result.metrics)}")
    for name in ("curve.png", "episode.gif"):
        if (folder / name).exists():
            print(f"  {folder / name}")
    print(f"  {folder}")
    if not result.updates:
        print(
            "nothing was learned: no update was due in so few steps. Take more (--steps), or start earlier "
            "(--learning-starts).",
            file=sys.stderr,
        )
        return 0
    print(f"next: recollect eval {folder} --episodes 1000{own}, or recollect watch {folder}{own}")
    return 0
