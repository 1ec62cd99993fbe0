"""The command ``recollect``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from recollect.errors import MissingExtra, RecollectError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 2 if something asked for cannot be, 130 if interrupted."""
    try:
        import rich  # noqa: F401
        import tyro
    except ImportError as error:
        print(MissingExtra(str(error.name), "train"), file=sys.stderr)
        return 2
    from recollect.cli.envs import envs

    app = tyro.extras.SubcommandApp()
    app.command(envs)
    try:
        app.cli(prog="recollect", description="Experience memory for reinforcement learning.", args=arguments)
    except RecollectError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
