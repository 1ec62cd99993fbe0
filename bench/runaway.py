"""How QMIX's values run away, and what bounds do: simple_spread, with and without `--bounded`.

python bench/runaway.py --report docs/bench     (ten minutes)

Runs are kept under runs/runaway, and go on where they were.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from recollect.agents.qmix import QMIX, QMIXConfig
from recollect.agents.qmix.layout import laid_out
from recollect.agents.qmix.player import best
from recollect.train import resume, run
from recollect.train.checkpoint import exists, load_checkpoint, load_memory
from recollect.train.replay import load_run

FOLDER = Path("runs/runaway")
SEED = 2
STEPS = range(50_000, 500_001, 50_000)
EPISODES = 1_000
SETTINGS = {"gamma": 0.9, "lr": 2e-3, "recurrent": False}

PAGE = """# Values that run away

Written by `bench/runaway.py`: QMIX on `simple_spread`, seed {seed}, `--gamma 0.9 --lr 0.002 --no-recurrent`. All
rewards are below zero, so that nothing can be worth more than that. Values are the targets', of what was seen in
{episodes:,} episodes of the memory. Landmarks and starts lie within 1 of the middle: how far out is the largest
coordinate of an agent in the state of the highest value, and in the middling state.

## Without bounds (`--no-bounded`)

{free}

## With bounds

{bound}
"""


@torch.no_grad()
def look(folder: Path) -> tuple[float, float, float, float]:
    """Mean value, highest value, how far out agents are in that state, and in the middling state."""
    trained = load_run(folder)
    learner, memory = trained.learner, load_memory(folder)
    assert isinstance(learner, QMIX)
    assert learner.target_mixer is not None
    batch = memory.sample(EPISODES)
    layout = laid_out(np.asarray(batch["lengths"]))
    (team,) = learner._teams
    part = team.read(batch, layout)
    values = team.target_values(part)
    chosen = values.gather(2, best(values, part.allowed)[..., None])[..., 0]
    obs = torch.from_numpy(batch["obs"].reshape(len(batch["obs"]), -1).take(layout.seen, axis=0))
    total = learner.target_mixer(chosen, obs)
    own = batch["obs"].take(layout.seen, axis=0)[:, :, 2:4]  # agents' positions
    far = torch.from_numpy(np.abs(own).max(axis=(1, 2)))
    at = int(total.argmax())
    return float(total.mean()), float(total[at]), float(far[at]), float(far.median())


def stages(*, bounded: bool) -> str:
    """Train, stop every so often, and look."""
    folder = FOLDER / ("bounded" if bounded else "free")
    found = ["| steps | return | mean value | highest value | how far out | usually |", "|---|---|---|---|---|---|"]
    for steps in STEPS:
        if not exists(folder):
            config = QMIXConfig(bounded=bounded, **SETTINGS)
            run(config, "simple_spread", folder=folder, steps=steps, seed=SEED, eval_every=50_000, film=False)
        elif load_checkpoint(folder)["steps"] < steps:
            resume(folder, steps=steps)
        mean, highest, far, usual = look(folder)
        score = load_run(folder).evaluate(EPISODES, seed=10_000)["return"]
        found.append(f"| {steps:,} | {score:.1f} | {mean:.1f} | {highest:.1f} | {far:.1f} | {usual:.1f} |")
        print(found[-1], flush=True)
    return "\n".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    page = PAGE.format(seed=SEED, episodes=EPISODES, free=stages(bounded=False), bound=stages(bounded=True))
    if asked.report:
        (asked.report / "runaway.md").write_text(page)


if __name__ == "__main__":
    main()
