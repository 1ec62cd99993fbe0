"""Who beats whom: algorithms that learned the battle by playing against themselves, all pairs, both colours.

python bench/battle.py --map-size 25 --report docs/bench     (an hour; 40, the default, has 64 against 64)

Runs are kept under runs/battle, and those that are finished are not trained again.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from training import train

from relive import envs
from relive.agents.mfq import MFQConfig
from relive.agents.registry import find
from relive.envs.video import save_video
from relive.training.replay import load_run

FOLDER = Path("runs/battle")
Q_LEARNING: dict[str, Any] = {"encoder": "flat", "batch_size": 4, "update_every": 4, "temperature_steps": 40_000}
GRADIENTS: dict[str, Any] = {"encoder": "flat", "clip": 0.2, "epochs": 2, "minibatches": 4, "entropy": 0.08}
GRADIENTS |= {"actor_lr": 5e-4, "critic_lr": 5e-4}
GRADIENTS |= {"normalize_advantage": False}  # else not to fight at all is learned before how to
WHO = {
    "MFQ": MFQConfig(**Q_LEARNING),
    "IL": MFQConfig(neighbours="none", **Q_LEARNING),
    "MFAC": replace(find("mfac"), **GRADIENTS),
    "AC": replace(find("ia2c"), agent_id=False, **GRADIENTS),
}
PAGE = """# The battle of many: who beats whom

Written by `python bench/battle.py --map-size {map_size}` on {day}: {size}, {steps:,} steps of self-play each,
seeds {seeds}. Every pair of runs plays {battles} battles, half of them in each colour, by its policies as they explore
in the end. Shares of battles that the row won against the column (draws count half).

{table}

MFQ and MFAC read the mean action of their neighbours; IL and AC are the same without it.
The mean-field paper (Yang et al. 2018) orders them MFQ, IL, MFAC, AC.
"""


def learned(name: str, seed: int, steps: int, options: dict[str, Any]) -> Path:
    """Train, or go on."""
    torch.set_num_threads(1)
    folder = FOLDER / f"{name}-{options['map_size']}-{steps}" / f"seed_{seed}"
    train(
        folder,
        WHO[name],
        "battle",
        steps,
        seed=seed,
        num_envs=8,
        env_options=options,
        eval_every=max(steps // 2, 1),
        eval_episodes=8,
    )
    return folder


def won(red: Path, blue: Path, battles: int, options: dict[str, Any], seed: int) -> float:
    """The share of battles that red won against blue."""
    torch.set_num_threads(1)
    env = envs.make("battle", num_envs=battles, **options)
    actors = [load_run(run).learner.actor(battles, explore=True, seed=seed) for run in (red, blue)]
    obs, going, points = env.reset(seed=seed), np.ones(battles, bool), 0.0
    while going.any():
        actions = [actor.act(obs, 10**9)[0] for actor in actors]
        step = env.step({"red/action": actions[0]["red/action"], "blue/action": actions[1]["blue/action"]})
        over = step.ended & going
        points += (step.info["red_won"] + 0.5 * ~(step.info["red_won"] | step.info["blue_won"]))[over].sum()
        for actor in actors:
            actor.reset(step.ended)
        going &= ~step.ended
        obs = step.obs
    return points / battles


def film(red: Path, blue: Path, options: dict[str, Any], path: Path) -> None:
    """A battle as a picture that moves."""
    env = envs.make("battle", **options)
    actors = [load_run(run).learner.actor(1, explore=True, seed=0) for run in (red, blue)]
    obs, pictures, ended = env.reset(seed=0), [env.render()], False
    env.at_end = lambda index: pictures.append(env.render(index))  # type: ignore[attr-defined]
    while not ended:
        actions = [actor.act(obs, 10**9)[0] for actor in actors]
        step = env.step({"red/action": actions[0]["red/action"], "blue/action": actions[1]["blue/action"]})
        obs, ended = step.obs, bool(step.ended[0])
        if not ended:
            pictures.append(env.render())
    save_video(path, pictures, fps=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument("--film", type=Path, metavar="FILE", help="a battle of MFQ against IL")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--map-size", type=int, default=40)
    parser.add_argument("--battles", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=list(WHO), default=list(WHO))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="small teams and little training")
    asked = parser.parse_args()
    if asked.quick:
        asked.seeds, asked.steps, asked.map_size, asked.battles = [1], 2_000, 15, 4
    options = {"map_size": asked.map_size}
    with ProcessPoolExecutor(asked.workers) as pool:
        runs = {n: [pool.submit(learned, n, seed, asked.steps, options) for seed in asked.seeds] for n in asked.only}
        folders = {name: [each.result() for each in going] for name, going in runs.items()}
        half = max(asked.battles // 2, 1)
        games = {}
        for first, second in combinations(asked.only, 2):
            pairs = [(a, b) for a in folders[first] for b in folders[second]]
            games[first, second] = [
                (pool.submit(won, a, b, half, options, 7 + i), pool.submit(won, b, a, half, options, 77 + i))
                for i, (a, b) in enumerate(pairs)
            ]
        shares = {
            pair: float(np.mean([(one.result() + 1 - two.result()) / 2 for one, two in played]))
            for pair, played in games.items()
        }
    lines = [f"| | {' | '.join(asked.only)} |", "|---|" + "---|" * len(asked.only)]
    for row in asked.only:
        cells = [
            ""
            if row == column
            else f"{shares[row, column] if (row, column) in shares else 1 - shares[column, row]:.2f}"
            for column in asked.only
        ]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    print("\n".join(lines))
    if asked.film:
        film(folders["MFQ"][0], folders["IL"][0], options, asked.film)
    if asked.report:
        count = len(envs.make("battle", **options).groups[0])
        facts = {
            "day": date.today(),
            "size": f"{count} against {count}",
            "map_size": asked.map_size,
            "steps": asked.steps,
            "table": "\n".join(lines),
        }
        page = PAGE.format(**facts, seeds=" ".join(map(str, asked.seeds)), battles=2 * half)
        (asked.report / "battle.md").write_text(page)


if __name__ == "__main__":
    main()
