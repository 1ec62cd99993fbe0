"""The command ``recollect``."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from recollect import __version__
from recollect.errors import MissingExtra, RecollectError

try:
    import tyro
except ImportError:
    tyro = None  # type: ignore[assignment]

__all__ = ["main"]

_ABOUT = """Experience memory for reinforcement learning, and the trainers that live on it.

--import MODULE, with any command, imports a module that registers algorithms or environments of your own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 2 if something asked for cannot be, 130 if interrupted."""
    if tyro is None:
        print(MissingExtra("tyro", "train"), file=sys.stderr)
        return 2
    given = list(sys.argv[1:] if arguments is None else arguments)
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"note: {message}\n"
    try:
        if given[:1] in (["--version"], ["-V"]):
            print(f"recollect {__version__}")
            return 0
        if given[:1] == ["train"]:
            from recollect.cli.train import train

            return train(given[1:])
        if given[:1] == ["tune"]:
            from recollect.cli.tune import tune_command

            return tune_command(given[1:])
        if given[:1] == ["pymarl"]:
            from recollect.cli.pymarl import pymarl

            return pymarl(given[1:])
        if "--import" in given:
            from recollect.cli.importing import import_typed

            import_typed(given)
        app = tyro.extras.SubcommandApp()
        for command in (_train, _tune, _pymarl, _eval, _watch, _plot, _export, _inspect, _serve, _envs, _algorithms):
            app.command(name=command.__name__.strip("_"))(command)
        app.cli(prog="recollect", description=_ABOUT, args=given)
    except RecollectError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read this has read enough
        sys.stderr.close()
        return 0
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        warnings.formatwarning = format_before
    return 0


def _train() -> None:
    """Train an algorithm on an environment: recollect train maddpg simple_spread."""


def _tune() -> None:
    """Search for good settings: recollect tune maddpg simple_spread --trials 30."""


def _pymarl() -> None:
    """Train with PyMARL's command line: recollect pymarl --config=qmix --env-config=sc2 with t_max=2050000."""


def _envs(name: "tyro.conf.Positional[str]" = "") -> None:
    """List the environments, with agents, spaces and a line each.

    Args:
        name: Show this one only, with its options.
    """
    from recollect.cli.envs import envs

    envs(name)


def _eval(
    run: "tyro.conf.Positional[Path]",
    episodes: int = 100,
    seed: int | None = None,
    step: int | None = None,
    explore: bool = False,
    trust: bool = False,
) -> None:
    """Evaluate a run, or several seeds.

    Args:
        run: The run's folder, or that of several seeds.
        episodes: How many.
        seed: Of the episodes; by default those that the run was evaluated with.
        step: Of an earlier checkpoint that was kept.
        explore: Draw actions as training does, and do not take the best.
        trust: Import modules that the run's settings name.
    """
    from recollect.cli.look import evaluate

    evaluate(run, episodes, seed, step, explore=explore, trust=trust)


def _watch(
    run: "tyro.conf.Positional[Path]",
    out: Path | None = None,
    seed: int | None = None,
    fps: float = 10,
    trust: bool = False,
) -> None:
    """Watch an episode of a run: in a window, or as a video.

    Args:
        run: The run's folder.
        out: A .gif or .mp4 to write; by default watch.gif in the run's folder where there is no display.
        seed: Of the episode.
        fps: Steps a second.
        trust: Import modules that the run's settings name.
    """
    from recollect.cli.look import watch

    watch(run, out, seed, fps, trust=trust)


def _plot(
    runs: "tyro.conf.Positional[tuple[Path, ...]]", out: Path = Path("curves.png"), labels: tuple[str, ...] = ()
) -> None:
    """Draw the curves of several runs into one picture; seeds of one setting become a line with a band.

    Args:
        runs: The runs' folders.
        out: The picture to write.
        labels: Of the lines, in their order; by default what their settings say.
    """
    from recollect.cli.look import plot

    plot(runs, out, labels)


def _export(
    run: "tyro.conf.Positional[Path]",
    onnx: Path | None = None,
    torch_export: Path | None = None,
    per_agent: Path | None = None,
    step: int | None = None,
    trust: bool = False,
) -> None:
    """Write a run's policy for other programs.

    Args:
        run: The run's folder.
        onnx: An .onnx file to write, checked with onnxruntime.
        torch_export: A .pt2 file to write, a program of torch.export.
        per_agent: A folder to write agent_0/actor.safetensors and so on to.
        step: Of an earlier checkpoint that was kept.
        trust: Import modules that the run's settings name.
    """
    from recollect.cli.export import export

    export(run, onnx, torch_export, per_agent, step, trust=trust)


def _inspect(path: "tyro.conf.Positional[Path]", out: Path | None = None) -> None:
    """Say what a memory holds: fields, bytes, episodes, returns, priorities, ages.

    Args:
        path: A run's folder, or a snapshot's.
        out: A picture to write.
    """
    from recollect.cli.inspect import inspect

    inspect(path, out)


def _serve(
    runs: "tyro.conf.Positional[Path]" = Path("runs"),
    memory: tuple[str, ...] = (),
    host: str = "127.0.0.1",
    port: int = 8265,
    token: str | None = None,
    open_browser: bool = False,
) -> None:
    """Open a page on runs and memories, live.

    Args:
        runs: A folder of runs, or a run's own.
        memory: Memories to show besides: a snapshot's folder, a mapped file, or shared:NAME.
        host: The address to listen on. Others than loopback let other machines in, who need the token.
        port: The port; 0 takes one that is free.
        token: What the address must have; by default a new one is made.
        open_browser: Open it in a browser.
    """
    from recollect.cli.serve import serve

    serve(runs, memory, host, port, token, open_browser=open_browser)


def _algorithms() -> None:
    """List the algorithms, with a line each."""
    from recollect.cli.algorithms import algorithms

    algorithms()
