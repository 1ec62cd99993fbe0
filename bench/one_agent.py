"""Environment steps a CPU second of DQN, PPO and SAC: against Stable-Baselines3, and CleanRL's scripts written plainly.

python bench/one_agent.py --report docs/bench

Stacks train in processes of their own and take turns in one run, as in bench/train.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

from train import Player, page_of, played

PAGE = """# One agent: speed

Written by `python bench/one_agent.py` on {day}, {machine}, Python {python}, torch {torch}, Stable-Baselines3 {sb3}.

Environment steps a CPU second: acting, stepping, storing and learning; no evaluation, no logs. All take turns of
{seconds} CPU seconds, {rounds} rounds, one thread each; medians. In brackets: how many times as fast relive is. The
machine is shared: read the ratios.

{table}

Networks and schedules are those of CleanRL's scripts. DQN: one environment, layers of 120 and 84 units, a batch of 128
every 10 steps. PPO: four environments, rollouts of 128 steps, four epochs of four minibatches, layers of 64 units. SAC:
one environment, layers of 256 units, a batch of 256 at every step. "Written plainly"
(`bench/trainers/run_plain_one_agent.py`) is what those scripts do, in as few words of torch. "Without kernels" is
`--no-kernels`: the same modules by torch alone.
"""

TASKS = (("dqn", "CartPole-v1", 1, 3_000), ("ppo", "CartPole-v1", 4, 3_000), ("sac", "HalfCheetah-v5", 1, 1_200))
STACKS = {
    "relive": ("run_relive_one_agent.py",),
    "without kernels": ("run_relive_one_agent.py", "--no-kernels"),
    "Stable-Baselines3": ("run_sb3.py",),
    "written plainly": ("run_plain_one_agent.py",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where to write one_agent.md")
    parser.add_argument("--only", nargs="+", choices=[task[0] for task in TASKS], default=[task[0] for task in TASKS])
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    asked = parser.parse_args()
    rounds, seconds = (3, 2.0) if asked.quick else (7, 3.0)
    lines = [f"| | {' | '.join(STACKS)} |", "|---|" + "---|" * len(STACKS)]
    for name, env, envs, warm in TASKS:
        if name not in asked.only:
            continue
        playing = {
            stack: Player(sys.executable, script, name, env, envs, warm, *more)
            for stack, (script, *more) in STACKS.items()
        }
        medians = {stack: statistics.median(found) for stack, found in played(playing, rounds, seconds).items()}
        first = medians["relive"]
        cells = [
            f"{speed:,.0f}" + (f" ({first / speed:.2g})" if stack != "relive" else "")
            for stack, speed in medians.items()
        ]
        lines.append(f"| {name.upper()}, {env} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if asked.report:
        page = page_of(PAGE, lines, rounds, seconds, sb3=version("stable-baselines3"))
        (asked.report / "one_agent.md").write_text(page)


if __name__ == "__main__":
    main()
