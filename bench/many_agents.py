"""Environment steps a CPU second of MASAC, ISAC, mean-field methods and COMA: against XuanCe.

python bench/many_agents.py --xuance .venv-xuance/bin/python --report docs/bench

Stacks train in processes of their own and take turns in one run, as in bench/train.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from train import Player, page_of, played, version_of

PAGE = """# MASAC, ISAC, mean fields and COMA: speed

Written by `python bench/many_agents.py` on {day}, {machine}, Python {python}, torch {torch}, XuanCe {xuance}.

Environment steps a CPU second on simple_spread: acting, stepping, storing and learning; no evaluation, no logs. All
take turns of {seconds} CPU seconds, {rounds} rounds, one thread each; medians. In brackets: how many times as fast
relive is. The machine is shared: read the ratios.

{table}

Sizes and schedules are XuanCe's own for this task (`--preset xuance`), with 16 environments: MASAC, ISAC and MFQ learn
from a batch of 256 rows every 25 steps of all environments, MFAC and COMA go ten times over rollouts of 200 steps.
XuanCe's environments are PettingZoo's (mpe2), one after another; relive's are its own, vectorised. "Without kernels"
is `--no-kernels`: the same modules by torch alone.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--xuance", metavar="PYTHON", help="a Python that has XuanCe and mpe2")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where to write many_agents.md")
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    asked = parser.parse_args()
    rounds, seconds = (3, 2.0) if asked.quick else (7, 3.0)
    lines = ["| | relive | without kernels | XuanCe |", "|---|---|---|---|"]
    for name in ("masac", "isac", "mfq", "mfac", "coma"):
        playing = {
            "relive": Player(sys.executable, "run_relive_many.py", name, 7_000),
            "without kernels": Player(sys.executable, "run_relive_many.py", name, 7_000, "--no-kernels"),
        }
        if asked.xuance:
            playing["XuanCe"] = Player(asked.xuance, "run_xuance.py", name, 4_000)
        medians = {stack: statistics.median(found) for stack, found in played(playing, rounds, seconds).items()}
        first = medians["relive"]
        cells = [f"{first:,.0f}"]
        for stack in ("without kernels", "XuanCe"):
            cells.append(f"{medians[stack]:,.0f} ({first / medians[stack]:.2g})" if stack in medians else "")
        lines.append(f"| {name.upper()} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if asked.report:
        page = page_of(PAGE, lines, rounds, seconds, xuance=version_of(asked.xuance, "xuance"))
        (asked.report / "many_agents.md").write_text(page)


if __name__ == "__main__":
    main()
