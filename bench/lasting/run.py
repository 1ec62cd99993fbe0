"""Everything about lasting memories: prints the tables, and writes them to a page.

python bench/lasting/run.py --report docs/bench
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("OMP_NUM_THREADS", "1")

PARTS = ("sharing", "appending", "snapshots")

PAGE = """# Snapshots, shared memory and journals: speed

Written by `make bench`, {machine}, Python {python}; {versions}.

The machine is shared and its disk is virtual: read the ratios. Ways take turns, and the median round counts.

## Saving and loading

A plain buffer is a dict of arrays with a next observation beside every observation. relive's save is on disk when it
returns and its files carry checksums that are verified on loading; the others are given with and without an fsync after
them. Loads are timed the second time in a row, when the system has the files and free memory at hand: on this machine
touching memory for the first time costs more than reading it.

{snapshots}

## Processes that write into one memory

From a common start until the last row is in. One learner process owns the memory; the machine has {cores} cores.

{sharing}

## What an append costs

{appending}
"""


def mark(name: str) -> str:
    """What a part of the page begins with."""
    return f"<!-- bench/lasting/{name}.py -->"


def main() -> None:
    """Run all scripts of this folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--report", type=Path, help="folder for a page of the results")
    parser.add_argument("--only", choices=PARTS, help="measure one part again; the page keeps the others")
    options = parser.parse_args()

    folder = None
    parts = {}
    if options.report:
        folder = options.report / "quick" if options.quick else options.report
        folder.mkdir(parents=True, exist_ok=True)
    if options.only and folder:
        page = (folder / "lasting.md").read_text()
        parts = {name: page.partition(mark(name))[2].partition("\n<!-- end -->")[0] for name in PARTS}
    for name in [options.only] if options.only else PARTS:
        found = importlib.import_module(name).run(quick=options.quick)
        parts[name] = f"\nMeasured on {date.today().isoformat()}.\n\n{found}\n"
        print(f"\n{found}", flush=True)
    if folder:
        versions = ", ".join(
            f"{name} {importlib.metadata.version(name)}" for name in ("relive", "numpy", "torch", "cpprb")
        )
        page = PAGE.format(
            machine=platform.machine(),
            python=platform.python_version(),
            versions=versions,
            cores=os.cpu_count(),
            **{name: f"{mark(name)}{part}\n<!-- end -->" for name, part in parts.items()},
        )
        (folder / "lasting.md").write_text(page)
        print(f"\nwritten to {folder / 'lasting.md'}")


if __name__ == "__main__":
    main()
