"""``relive train``: new runs, resumed ones, several seeds, and the final report."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relive import training
from relive.agents import registry
from relive.cli.flags import Flags, parsed_settings, whole_number
from relive.cli.importing import import_from_here, import_typed, taken
from relive.cli.process import settle_process
from relive.cli.progress import metrics_text, with_progress
from relive.errors import OptionError
from relive.learn.factories import named_module
from relive.training import Result, RunConfig, checkpoint
from relive.training.config_file import describe, read_config, same_settings, with_imports
from relive.training.curves import draw_runs
from relive.training.loop import new_folder
from relive.training.settings import as_data, resolved
from relive.training.trust import check_cluster

__all__ = ["notified_run", "train"]

_USAGE = """\
usage: relive train ALGORITHM ENVIRONMENT [flags]
       relive train --config FILE.toml [--trust] [flags]
       relive train --resume RUN [--steps N] [--device D] [--cluster ADDRESS] [--trust]

--import MODULE imports a module that registers custom algorithms or environments.

Trains an algorithm on an environment. Results go to a new folder under runs/:
config.toml, metrics.jsonl, tensorboard/, checkpoints, curve.png, and at the end episode.gif.

algorithms: {algorithms}
environments: relive envs lists them

relive train {first} --help shows the flags of an algorithm."""


def train(arguments: Sequence[str]) -> int:
    """Run ``relive train`` with these arguments; returns the exit code."""
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
        if "cluster" not in flags:
            check_cluster(settings.cluster, path, trust=trust)
    else:
        algorithm = registry.find(left.pop(0))
        env, settings = "", RunConfig()
        if left and not left[0].startswith("-"):
            env = left.pop(0)
        elif "-h" not in left and "--help" not in left:
            raise OptionError("environment", "follow the algorithm", "nothing", "`relive envs` lists them.")
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


def notified_run(algorithm: Any, env: str, settings: RunConfig, folder: Path | None = None) -> int:
    """One run with progress; returns the exit code."""
    return _report(
        with_progress(
            lambda progress: training.train(algorithm, env, config=settings, folder=folder, progress=progress)
        )
    )


def _begun(chosen: Flags, env: str, settings: RunConfig, folder: Path) -> int:
    """One of several runs: a new one, or a stopped one resumed."""
    if not checkpoint.exists(folder):
        return notified_run(chosen.algorithm, env, settings, folder)
    if not same_settings(folder / "config.toml", env, chosen.algorithm, settings):
        raise OptionError("folder", "hold runs of these settings, to go on with them", str(folder), "Choose another.")
    if checkpoint.load_checkpoint(folder)["steps"] >= settings.steps:
        print(f"  {folder} is done")
        return 0
    # The environment was typed, or trusted.
    return _report(with_progress(lambda progress: training.resume(folder, progress=progress, trust=True)))


def _resume(arguments: list[str], *, trust: bool) -> int:
    folder = taken(arguments, "--resume")
    steps = whole_number("--steps", taken(arguments, "--steps")) if "--steps" in arguments else None
    device = taken(arguments, "--device") if "--device" in arguments else None
    cluster = taken(arguments, "--cluster") if "--cluster" in arguments else None
    settle_process(whole_number("--threads", taken(arguments, "--threads")) if "--threads" in arguments else 1)
    if arguments:
        rule = "be --steps, --device, --cluster, --threads, --import or --trust beside --resume"
        raise OptionError("flag", rule, arguments[0], "A resumed run keeps its settings.")
    options: dict[str, Any] = {"steps": steps, "device": device, "cluster": cluster, "trust": trust}
    return _report(with_progress(lambda progress: training.resume(folder, progress=progress, **options)))


def _apart(text: str) -> list[str]:
    """``--config=FILE`` as two."""
    flag, equals, value = text.partition("=")
    return [flag, value] if equals and flag in ("--config", "--resume", "--preset", "--import") else [text]


def _report(result: Result) -> int:
    """Print the results, their paths, and the next commands."""
    folder = result.folder
    described = describe(folder / "config.toml")
    own = "".join(f" --import {name}" for name in described.run.get("imports", ()))
    own += " --trust" if any(named_module(value) for value in described.settings.values()) else ""
    if result.interrupted:
        go_on = f"relive train --resume {folder}{own}"
        print(f"stopped after {result.steps:,} steps; resume with: {go_on}", file=sys.stderr)
        return 128 + result.signal
    print(f"{result.steps:,} steps  {metrics_text(result.metrics)}")
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
    print(f"next: relive eval {folder} --episodes 1000{own}, or relive watch {folder}{own}")
    return 0
