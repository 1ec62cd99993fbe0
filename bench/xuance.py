"""XuanCe 1.4.4 as pip installs it, on its own memories and on ours: what it costs, and that it learns the same.

python bench/xuance.py --xuance .venv-xuance/bin/python --report docs/bench     (minutes)

The program is bench/trainers/xuance_script.py; ``relive-with xuance`` runs it on our memories as it is. Where draws can
be aligned (all but prioritised and recurrent replay of one agent), losses of both runs are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "trainers"
ON_POLICY = ("a2c", "pg", "ppo", "ppg", "ippo", "mappo", "mfac", "coma", "ic3net")
ONE = ("dqn", "perdqn", "drqn", "a2c", "pg", "ppo", "ppg", "sac", "td3")
MANY = ("maddpg", "matd3", "iql", "vdn", "qmix", "ippo", "mappo", "mfq", "mfac", "coma", "ic3net")
STEPS = dict.fromkeys((*ONE, *MANY), 10_000)
NOT_ALIGNED = ("perdqn", "drqn")

PAGE = """# XuanCe 1.4.4 on relive's memories

Written by `bench/xuance.py` on {day}. XuanCe from pip with its own settings (`get_arguments`), {steps:,} steps of
CartPole-v1, Pendulum-v1 (SAC, TD3) or simple_spread_v3, the same script unmodified: `relive-with xuance -- script.py`.
CPU seconds of training and of its memory's methods, medians of {times} runs that take turns; mebibytes that the process
grew by. The last column is the largest difference of a logged loss, relative to the largest loss, when our memory draws
what XuanCe's would (rollouts draw nothing). For both alike, `pettingzoo.mpe` means mpe2, as newer PettingZoo has none,
and the Huber loss that XuanCe's COMA makes with a delta of None, which torch refuses, gets one.

{table}
"""


def run(python: Path, ours: bool, name: str, steps: int, aligned: bool = False) -> dict[str, Any]:
    """One run in a process of its own."""
    script = [str(HERE / "xuance_script.py"), name, str(steps), *(["--aligned"] if aligned else [])]
    command = [str(python.parent / "relive-with"), "xuance", "--", *script] if ours else [str(python), *script]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def difference(theirs: list[float], ours: list[float]) -> str:
    """How far apart losses are."""
    if not theirs or len(theirs) != len(ours):
        return f"{len(theirs)} and {len(ours)} losses"
    largest = max(abs(value) for value in theirs) or 1.0
    return f"{max(abs(a - b) for a, b in zip(theirs, ours, strict=True)) / largest:.0e}"


def row(python: Path, name: str, times: int) -> str:
    """One algorithm's line."""
    steps = STEPS[name]
    runs: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for _ in range(times):
        for ours in (False, True):
            runs[ours].append(run(python, ours, name, steps))
    for ours, found in runs.items():
        if "error" in found[0]:
            return f"| {name} | {'ours' if ours else 'theirs'} does not run: {found[0]['error']} | | | | |"

    def of(key: str) -> list[float]:
        return [statistics.median(each[key] for each in runs[ours]) for ours in (False, True)]

    equal = "not to be aligned"
    if name not in NOT_ALIGNED:
        found = runs[True][0] if name in ON_POLICY else run(python, True, name, steps, aligned=True)
        equal = found["error"] if "error" in found else difference(runs[False][0]["losses"], found["losses"])
    kind = runs[True][0]["memory"].rpartition(".")[2]
    (whole, ours_whole), (inside, ours_inside), (room, ours_room) = of("seconds"), of("in_memory"), of("mebibytes")
    return (
        f"| {name} | {kind} | {whole:.1f} / {ours_whole:.1f} | {inside:.2f} / {ours_inside:.2f} "
        f"| {room:.0f} / {ours_room:.0f} | {equal} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--xuance", type=Path, required=True, metavar="PYTHON", help="where XuanCe and relive are")
    parser.add_argument("--only", nargs="+", default=list(STEPS))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    lines = [
        "| algorithm | memory | CPU s, theirs / ours | in the memory | MiB | largest difference |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name in asked.only:
        lines.append(row(asked.xuance.absolute(), name, asked.times))
        print(lines[-1], flush=True)
    if asked.report:
        page = PAGE.format(day=date.today(), times=asked.times, table="\n".join(lines), steps=STEPS["dqn"])
        (asked.report / "xuance.md").write_text(page)


if __name__ == "__main__":
    main()
