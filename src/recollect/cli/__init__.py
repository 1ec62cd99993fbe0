"""The command ``recollect``."""

import sys
from collections.abc import Sequence

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
        app = tyro.extras.SubcommandApp()
        for name, command in (("train", _train), ("envs", _envs), ("algorithms", _algorithms)):
            app.command(name=name)(command)
        app.cli(prog="recollect", description="Experience memory for reinforcement learning.", args=given)
    except RecollectError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _train() -> None:
    """Train an algorithm on an environment: recollect train maddpg simple_spread."""


def _envs(name: "tyro.conf.Positional[str]" = "") -> None:
    """List the environments, with agents, spaces and a line each.

    Args:
        name: Show this one only, with its options.
    """
    from recollect.cli.envs import envs

    envs(name)


def _algorithms() -> None:
    """List the algorithms, with a line each."""
    from recollect.cli.algorithms import algorithms

    algorithms()
