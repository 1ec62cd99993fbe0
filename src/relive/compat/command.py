"""The command ``relive-with``: runs a program of PyMARL or XuanCe, unchanged, on relive's memories."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from pathlib import Path

from relive.compat import xuance
from relive.errors import OptionError, ReliveError

__all__ = ["main"]

_USAGE = """relive-with pymarl -- path/to/src/main.py ARGUMENTS
       relive-with xuance [--version X.Y] -- SCRIPT ARGUMENTS
       relive-with xuance [--version X.Y] -- -m MODULE ARGUMENTS"""

_ABOUT = """Run a program of another project, unchanged, with relive's memories in place of its own.

pymarl: main.py of PyMARL, EPyMARL or PyMARL2; components.episode_buffer is replaced.
xuance: a script that uses XuanCe 1.0 to 1.4; xuance.common.memory_tools, memory_tools_marl and
        memory_offline are replaced.

    relive-with pymarl -- pymarl/src/main.py --config=qmix --env-config=sc2 with env_args.map_name=2s3z
    relive-with xuance -- train.py --method dqn --env classic_control --env-id CartPole-v1"""


def main() -> int:
    """Run the command; returns the exit code."""
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        "relive-with", _USAGE, _ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", choices=("pymarl", "xuance"), help="the project that the program uses")
    parser.add_argument("--version", help="XuanCe's version, if it is not the one that would be imported")
    asked, program = parser.parse_args(arguments[:split]), arguments[split + 1 :]
    module = asked.project == "xuance" and program[:1] == ["-m"]
    if module:
        program = program[1:]
    if not program or (not module and not Path(program[0]).is_file()):
        got = program[0] if program else "nothing after --"
        print(f"SCRIPT must be a file, got {got}.\nusage: {_USAGE}", file=sys.stderr)
        return 2
    folder = Path.cwd() if module else Path(program[0]).resolve().parent
    sys.path.insert(0, str(folder))
    try:
        replaced = _replace_pymarl(folder) if asked.project == "pymarl" else _replace_xuance(asked.version)
    except ReliveError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"relive-with: {replaced}", file=sys.stderr, flush=True)
    sys.argv = list(program)
    if module:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program[0], run_name="__main__")
    return 0


def _replace_pymarl(source: Path) -> str:
    if not (source / "components").is_dir():
        remedy = "Pass main.py in the src folder of their project."
        raise OptionError("SCRIPT", "lie beside the folder components", f"none in {source}", remedy)
    ours = importlib.import_module("relive.compat.pymarl")
    sys.modules["components.episode_buffer"] = ours
    # `import components.episode_buffer` finds the module above, and then looks here for its name.
    vars(importlib.import_module("components"))["episode_buffer"] = ours
    return "components.episode_buffer is that of relive.compat.pymarl"


def _replace_xuance(version: str | None) -> str:
    installed = xuance.install(version)
    return f"the memories of XuanCe {installed} (xuance.common.memory_*) are those of relive.compat.xuance"


if __name__ == "__main__":
    sys.exit(main())
