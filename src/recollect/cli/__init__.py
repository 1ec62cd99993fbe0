"""The command ``recollect``."""

import sys
from collections.abc import Sequence
from pathlib import Path

from recollect.errors import MissingExtra, RecollectError

try:
    import tyro
except ImportError:
    tyro = None  # type: ignore[assignment]

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 2 if something asked for cannot be, 130 if interrupted."""
    if tyro is None:
        print(MissingExtra("tyro", "train"), file=sys.stderr)
        return 2
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["train"]:
            from recollect.cli.train import train

            return train(given[1:])
        if given[:1] == ["pymarl"]:
            from recollect.cli.pymarl import pymarl

            return pymarl(given[1:])
        app = tyro.extras.SubcommandApp()
        for command in (_train, _pymarl, _eval, _watch, _plot, _inspect, _envs, _algorithms):
            app.command(name=command.__name__.strip("_"))(command)
        app.cli(prog="recollect", description="Experience memory for reinforcement learning.", args=given)
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
    return 0


def _train() -> None:
    """Train an algorithm on an environment: recollect train maddpg simple_spread."""


def _pymarl() -> None:
    """Train with PyMARL's command line: recollect pymarl --config=qmix --env-config=sc2 with t_max=2050000."""


def _envs(name: "tyro.conf.Positional[str]" = "") -> None:
    """List the environments, with agents, spaces and a line each.

    Args:
        name: Show this one only, with its options.
    """
    from recollect.cli.envs import envs

    envs(name)


def _eval(run: "tyro.conf.Positional[Path]", episodes: int = 100, seed: int | None = None, trust: bool = False) -> None:
    """Evaluate a run without exploration.

    Args:
        run: The run's folder.
        episodes: How many.
        seed: Of the episodes; by default those that the run was evaluated with.
        trust: Import modules that the run's settings name.
    """
    from recollect.cli.look import evaluate

    evaluate(run, episodes, seed, trust=trust)


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


def _plot(runs: "tyro.conf.Positional[tuple[Path, ...]]", out: Path = Path("curves.png")) -> None:
    """Draw the curves of several runs into one picture; seeds of one setting become a line with a band.

    Args:
        runs: The runs' folders.
        out: The picture to write.
    """
    from recollect.cli.look import plot

    plot(runs, out)


def _inspect(path: "tyro.conf.Positional[Path]", out: Path | None = None) -> None:
    """Say what a memory holds: fields, bytes, episodes, returns, priorities, ages.

    Args:
        path: A run's folder, or a snapshot's.
        out: A picture to write.
    """
    from recollect.cli.inspect import inspect

    inspect(path, out)


def _algorithms() -> None:
    """List the algorithms, with a line each."""
    from recollect.cli.algorithms import algorithms

    algorithms()
