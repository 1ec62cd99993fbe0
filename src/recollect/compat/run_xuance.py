"""``recollect-xuance -- script.py ARGS``: runs a script on XuanCe with these memories in place of its own."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from recollect.compat.xuance import install
from recollect.errors import RecollectError

__all__ = ["main"]

_USAGE = """usage: recollect-xuance [--version X.Y] -- SCRIPT ARGUMENTS
       recollect-xuance [--version X.Y] -- -m MODULE ARGUMENTS

Runs a script that uses XuanCe (1.0 to 1.4) as it is, with recollect's memories in place of xuance.common.memory_tools,
memory_tools_marl and memory_offline. For example:

    recollect-xuance -- train.py --method dqn --env classic_control --env-id CartPole-v1
"""


def main() -> int:
    """The command."""
    arguments, version = sys.argv[1:], None
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] == "--version" and len(arguments) > 1:
        version, arguments = arguments[1], arguments[2:]
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    module = arguments[:1] == ["-m"]
    what = arguments[1:] if module else arguments
    if not what or (not module and not Path(what[0]).is_file()):
        print(f"SCRIPT must be a file, got {what[0] if what else 'none'}.\n\n{_USAGE}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(Path.cwd() if module else Path(what[0]).resolve().parent))
    try:
        install(version)
    except RecollectError as error:
        print(error, file=sys.stderr)
        return 2
    sys.argv = list(what)
    if module:
        runpy.run_module(what[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(what[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
