"""``recollect-pymarl SRC_DIR -- <their arguments>``: runs PyMARL's own main.py with this buffer in place of its own."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

__all__ = ["main", "put_in_place"]

_USAGE = """usage: recollect-pymarl SRC_DIR -- <arguments of their main.py>

Runs SRC_DIR/main.py of PyMARL, EPyMARL or PyMARL2 as it is, with recollect's episode buffer in place of
components.episode_buffer. For example:

    recollect-pymarl pymarl/src -- --config=qmix --env-config=sc2 with env_args.map_name=2s3z
"""


def put_in_place(source: Path) -> None:
    """Make ``components.episode_buffer`` of a source folder mean recollect's module, for this process."""
    sys.path.insert(0, str(source))
    ours = importlib.import_module("recollect.compat.pymarl")
    sys.modules["components.episode_buffer"] = ours
    # `import components.episode_buffer` finds the module above, and then looks here for its name.
    vars(importlib.import_module("components"))["episode_buffer"] = ours


def main() -> int:
    """The command."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    source, rest = Path(arguments[0]).resolve(), arguments[1:]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    script = source / "main.py"
    if not script.is_file() or not (source / "components").is_dir():
        got = "none" if source.is_dir() else "no folder"
        print(
            f"SRC_DIR must hold main.py and components, got {got} in {source}. Pass the src folder of their project.",
            file=sys.stderr,
        )
        return 2
    put_in_place(source)
    sys.argv = [str(script), *rest]
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
