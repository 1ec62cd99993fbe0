"""Environment steps a CPU second of MAPPO: against EPyMARL's loop written plainly, and BenchMARL on VMAS.

python bench/on_policy.py --benchmarl .venv-benchmarl/bin/python --report docs/bench

Stacks train in processes of their own and take turns in one run, as in bench/train.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from train import Player, page_of, played, version_of

PAGE = """# MAPPO: speed

Written by `python bench/on_policy.py` on {day}, {machine}, Python {python}, torch {torch}, BenchMARL {benchmarl} on
VMAS {vmas}.

Environment steps a CPU second: acting, stepping, storing and learning; no evaluation, no logs. Policies and critics
have two hidden layers of 64 units, agents share them, critics read the state or all observations. An update goes over
its rollout as a whole, as often as it says. All take turns of {seconds} CPU seconds, {rounds} rounds, one thread each;
medians. In brackets: how many times as fast relive is. The machine is shared: read the ratios.

{table}

The plain loop (`bench/trainers/run_plain_mappo.py`) is EPyMARL's: whole episodes, padded, policies unrolled a step at a
time, returns of five steps from a target critic computed anew in every epoch. Its environments take turns in one
process; on simple_spread they are mpe2's, on marines_4v4 relive's, one battle each. BenchMARL's are VMAS's,
vectorised as ours.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--benchmarl", metavar="PYTHON", help="a Python that has BenchMARL and VMAS")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where to write mappo.md")
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    asked = parser.parse_args()
    rounds, seconds = (3, 2.0) if asked.quick else (7, 3.0)
    lines = ["| | relive | without kernels | plain loop | BenchMARL |", "|---|---|---|---|---|"]
    for env, envs, rollout, epochs in (
        ("simple_spread", 10, 25, 4),
        ("marines_4v4", 10, 60, 4),
        ("simple_spread", 100, 25, 10),
    ):
        sizes = (env, envs, rollout, epochs)
        playing = {
            "relive": Player(sys.executable, "run_relive_mappo.py", *sizes, 2_000),
            "without kernels": Player(sys.executable, "run_relive_mappo.py", *sizes, 2_000, "--no-kernels"),
            "plain loop": Player(sys.executable, "run_plain_mappo.py", env, envs, epochs, 500),
        }
        if asked.benchmarl and env == "simple_spread":
            playing["BenchMARL"] = Player(asked.benchmarl, "run_benchmarl_mappo.py", *sizes, 2 * envs * rollout)
        medians = {name: statistics.median(found) for name, found in played(playing, rounds, seconds).items()}
        first = medians["relive"]
        cells = [f"{first:,.0f}"]
        for name in ("without kernels", "plain loop", "BenchMARL"):
            cells.append(f"{medians[name]:,.0f} ({first / medians[name]:.2g})" if name in medians else "")
        lines.append(f"| {env}, {envs} x {rollout} steps, {epochs} epochs | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if asked.report:
        versions = {name: version_of(asked.benchmarl, name) for name in ("benchmarl", "vmas")}
        page = page_of(PAGE, lines, rounds, seconds, **versions)
        (asked.report / "mappo.md").write_text(page)


if __name__ == "__main__":
    main()
