"""How scripted players fare in the marine skirmish: win rates and returns over whole battles.

python bench/players.py --report docs/bench
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np

from relive import envs
from relive.envs.marines import players
from relive.types import Array

SIZES = ("3v3", "4v4", "5v5", "5v6", "8v8", "8v9")

PAGE = """# Scripted players in the marine skirmish

Written by `make bench` on {day}: {episodes:,} battles each, every one counted from its start, seed 0.

{table}

Steps are those of a battle on average; cut off are battles that {limit} steps did not decide.
"""


def play(name: str, player: Callable[[dict[str, Array]], Array], episodes: int) -> tuple[float, float, float, float]:
    """Win rate, mean return, mean length and part cut off. One battle an environment, so that short ones do not count
    more often than long ones.
    """
    env = envs.make(name, num_envs=episodes)
    seen = env.reset(seed=0)
    over = np.zeros(episodes, bool)
    won, returns, lengths, cut = (np.zeros(episodes) for _ in range(4))
    while not over.all():
        step = env.step(player(seen))
        returns += step.row["reward"] * ~over
        lengths += ~over
        fresh = step.ended & ~over
        won[fresh] = step.info["battle_won"][fresh]
        cut[fresh] = step.truncated[fresh]
        over |= step.ended
        seen = step.obs
    return won.mean(), returns.mean(), lengths.mean(), cut.mean()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    episodes = 200 if given.quick else 1000
    lines = ["| skirmish | player | wins | return | steps | cut off |", "|---|---|---|---|---|---|"]
    for size in SIZES:
        generator = np.random.default_rng(0)
        for name in ("random", "nearest", "focus"):
            chance = (lambda seen, g=generator: players.random(seen, g)) if name == "random" else getattr(players, name)
            won, returned, length, cut = play(f"marines_{size}", chance, episodes)
            lines.append(f"| {size} | {name} | {won:.3f} | {returned:.1f} | {length:.1f} | {cut:.2f} |")
            print(lines[-1], flush=True)
    if given.report is not None:
        page = PAGE.format(day=date.today().isoformat(), episodes=episodes, table="\n".join(lines), limit=60)
        (given.report / "players.md").write_text(page)


if __name__ == "__main__":
    main()
