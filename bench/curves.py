"""Curves of all algorithms on simple_spread and marines_4v4 in one picture, with the settings there are by default.

python bench/curves.py --report docs/images     (an hour; --steps N, --seeds 1 2 3)

Runs are kept under runs/curves, and those that are finished are not trained again.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from training import train

from relive.agents.registry import find
from relive.training.curves import bootstrap_ci
from relive.training.loggers import read_metrics
from relive.training.metrics import evaluations

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path("runs/curves")
WHO = ("maddpg", "masac", "isac", "qmix", "qplex", "vdn", "iql", "mappo", "ippo", "maa2c", "ia2c", "coma")
LEFT_OUT = {"marines_4v4": ("maddpg",)}
PANELS = {"simple_spread": ("return", "return of an agent"), "marines_4v4": ("battle_won", "share of battles won")}
LEAST = {"simple_spread": -27.0, "marines_4v4": 0.0}
DASHES = ("-", "--", ":", "-.")
FAMILIES = (("maddpg", "masac", "isac"), ("qmix", "qplex", "vdn", "iql"), ("mappo", "ippo", "maa2c", "ia2c"), ("coma",))
"""A colour each."""


def learned(env: str, name: str, seed: int, steps: int) -> Path:
    """Train, or go on."""
    torch.set_num_threads(1)
    folder = FOLDER / env / name / f"seed_{seed}"
    train(folder, find(name), env, steps, seed=seed, eval_every=steps // 20)
    print(f"{name} on {env}, seed {seed}: done", flush=True)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.workers) as pool:
        going = {
            (env, name): [pool.submit(learned, env, name, seed, asked.steps) for seed in asked.seeds]
            for name in WHO
            for env in PANELS
            if name not in LEFT_OUT.get(env, ())
        }
        runs = {key: [each.result() for each in parts] for key, parts in going.items()}
    figure, panels = plt.subplots(1, len(PANELS), figsize=(11, 4.8), layout="constrained")
    for axes, (env, (metric, title)) in zip(panels, PANELS.items(), strict=True):
        for name in WHO:
            if (env, name) not in runs:
                continue
            lines = [evaluations(read_metrics(folder))[0] for folder in runs[env, name]]
            steps = [line["step"] for line in lines[0]]
            middle, low, high = bootstrap_ci(np.array([[line[metric] for line in each] for each in lines]))
            family = next(place for place, names in enumerate(FAMILIES) if name in names)
            style = {"color": plt.get_cmap("tab10")(family), "ls": DASHES[FAMILIES[family].index(name)]}
            label = find(name).name if env == "simple_spread" else None
            axes.plot(steps, middle, lw=1.5, label=label, **style)
            if len(lines) > 1:
                axes.fill_between(steps, low, high, alpha=0.15, color=style["color"])
            print(f"{name} on {env}: {middle[-1]:.2f}")
        axes.set(title=env, xlabel="steps", ylabel=title)
        axes.set_ylim(bottom=LEAST[env])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=6, frameon=False)
    if asked.report:
        figure.savefig(asked.report / "algorithms.png", dpi=110)


if __name__ == "__main__":
    main()
