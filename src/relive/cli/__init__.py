"""The command ``relive``."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from relive import __version__
from relive.errors import MissingExtra, ReliveError

try:
    import tyro
except ImportError:
    tyro = None  # type: ignore[assignment]

__all__ = ["main"]

_ABOUT = """Experience memory for reinforcement learning, and trainers on it.

--import MODULE, with any command, imports a module that registers custom algorithms or environments."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 2 for invalid arguments, 130 if interrupted."""
    if tyro is None:
        print(MissingExtra("tyro", "train"), file=sys.stderr)
        return 2
    given = list(sys.argv[1:] if arguments is None else arguments)
    format_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"note: {message}\n"
    try:
        if given[:1] in (["--version"], ["-V"]):
            print(f"relive {__version__}")
            return 0
        if given[:1] == ["train"]:
            from relive.cli.train import train

            return train(given[1:])
        if given[:1] == ["tune"]:
            from relive.cli.tune import tune_command

            return tune_command(given[1:])
        if given[:1] == ["pymarl"]:
            from relive.cli.pymarl import pymarl

            return pymarl(given[1:])
        if "--import" in given:
            from relive.cli.importing import import_typed

            import_typed(given)
        app = tyro.extras.SubcommandApp()
        for command in (_train, _tune, _pymarl, _eval, _watch, _plot, _export, _inspect, _serve, _envs, _algorithms):
            app.command(name=command.__name__.strip("_"))(command)
        app.cli(prog="relive", description=_ABOUT, args=given)
    except ReliveError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader closed the pipe, as head does
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
    """Train an algorithm on an environment: relive train maddpg simple_spread."""


def _tune() -> None:
    """Search hyperparameters: relive tune maddpg simple_spread --trials 30."""


def _pymarl() -> None:
    """Train with PyMARL's command line: relive pymarl --config=qmix --env-config=sc2 with t_max=2050000."""


def _envs(name: "tyro.conf.Positional[str]" = "") -> None:
    """List the environments with their agents and spaces.

    Args:
        name: Show only this one, with its options.
    """
    from relive.cli.envs import envs

    envs(name)


def _eval(
    run: "tyro.conf.Positional[Path]",
    episodes: int = 100,
    seed: int | None = None,
    step: int | None = None,
    explore: bool = False,
    trust: bool = False,
) -> None:
    """Evaluate the policy of a run, or of several seeds.

    Args:
        run: The run's folder, or that of several seeds.
        episodes: Number of evaluation episodes.
        seed: Seed of the episodes; by default that of the run's own evaluations.
        step: Use an earlier checkpoint (--keep-checkpoints), by its step.
        explore: Explore as in training, rather than act greedily.
        trust: Import modules that the run's settings name.
    """
    from relive.cli.look import evaluate

    evaluate(run, episodes, seed, step, explore=explore, trust=trust)


def _watch(
    run: "tyro.conf.Positional[Path]",
    out: Path | None = None,
    seed: int | None = None,
    fps: float | None = None,
    trust: bool = False,
) -> None:
    """Watch an episode of a run in a window, or save it as a video.

    Args:
        run: The run's folder.
        out: A .gif or .mp4 to write; without a display watch.gif in the run's folder by default.
        seed: Seed of the episode.
        fps: Frames (environment steps) per second; by default the environment's own, or 10.
        trust: Import modules that the run's settings name.
    """
    from relive.cli.look import watch

    watch(run, out, seed, fps, trust=trust)


def _plot(
    runs: "tyro.conf.Positional[tuple[Path, ...]]", out: Path = Path("curves.png"), labels: tuple[str, ...] = ()
) -> None:
    """Plot the learning curves of several runs; seeds of equal settings become a line with a confidence band.

    Args:
        runs: The runs' folders.
        out: The image to write.
        labels: Labels of the lines, in order; by default from their settings.
    """
    from relive.cli.look import plot

    plot(runs, out, labels)


def _export(
    run: "tyro.conf.Positional[Path]",
    onnx: Path | None = None,
    torch_export: Path | None = None,
    per_agent: Path | None = None,
    step: int | None = None,
    trust: bool = False,
) -> None:
    """Export a run's policy: ONNX, torch.export, or weights of single agents.

    Args:
        run: The run's folder.
        onnx: An .onnx file to write, verified with onnxruntime.
        torch_export: A .pt2 file (torch.export) to write.
        per_agent: A folder for agent_0/actor.safetensors and so on.
        step: Use an earlier checkpoint (--keep-checkpoints), by its step.
        trust: Import modules that the run's settings name.
    """
    from relive.cli.export import export

    export(run, onnx, torch_export, per_agent, step, trust=trust)


def _inspect(path: "tyro.conf.Positional[Path]", out: Path | None = None) -> None:
    """Show the contents of a memory: fields, bytes, episodes, returns, priorities, ages.

    Args:
        path: A run's folder, or a snapshot's.
        out: An image of histograms to write.
    """
    from relive.cli.inspect import inspect

    inspect(path, out)


def _serve(
    runs: "tyro.conf.Positional[Path]" = Path("runs"),
    memory: tuple[str, ...] = (),
    host: str = "127.0.0.1",
    port: int = 8265,
    token: str | None = None,
    open_browser: bool = False,
) -> None:
    """Serve a live web page of runs and memories.

    Args:
        runs: A folder of runs, or of one run.
        memory: Further memories to show: a snapshot's folder, a mapped file, or shared:NAME.
        host: The address to listen on. Any but loopback admits other machines, which need the token.
        port: The port; 0: a free one.
        token: The access token of the URL; by default a new one.
        open_browser: Open it in a browser.
    """
    from relive.cli.serve import serve

    serve(runs, memory, host, port, token, open_browser=open_browser)


def _algorithms() -> None:
    """List the algorithms with a summary each."""
    from relive.cli.algorithms import algorithms

    algorithms()
