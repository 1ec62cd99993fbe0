"""How QMIX falls back after it has learned: values that run away, and values that are a little too high.

python bench/collapse.py --report docs/bench     (half an hour)

Runs are kept under runs/collapse; those of the marines go on where they were.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from training import train

from relive import envs
from relive.agents.qmix import QMIX, QMIXConfig
from relive.learn.exploration import greedy
from relive.learn.sequences import pack_sequences
from relive.memory.targets import discounted_returns
from relive.tensors import to_torch
from relive.training.checkpoint import load_memory
from relive.training.curves import draw_runs
from relive.training.loggers import read_metrics
from relive.training.replay import load_run

FOLDER = Path("runs/collapse")
EPISODES = 1_000
STAGES = range(50_000, 500_001, 50_000)
SPREAD: dict[str, Any] = {"gamma": 0.9, "lr": 2e-3, "recurrent": False}
FAR_TARGETS: dict[str, Any] = {"gamma": 0.99, "td_lambda": 0.0, "lr": 5e-4, "clip_targets": False}

PAGE = """# Falling back

Written by `bench/collapse.py`: QMIX, one seed of each.

## Values that run away

`simple_spread`, seed 2, `--gamma 0.9 --lr 0.002 --no-recurrent`, values of what was seen in {episodes:,} episodes of
the memory. All rewards are below zero, so that nothing can be worth more than that. Landmarks and starts lie within 1
of the middle: how far out is the largest coordinate of an agent in the state of the highest value, and in the
middling state.

Without bounds (`--no-clip-targets`):

{free}

With bounds:

{bound}

## Battles won that dip

`marines_4v4`, seed 1, 400,000 steps, an evaluation of 200 battles every 5,000 steps: the largest fall within 10,000
steps; of those in the second half the lowest, and how many of the 40 won less than nine battles in ten. Then, in
{episodes:,} battles without exploration at the end: what the networks say that is done is worth, what it was worth
(discounted rewards that followed), and how far the best action stands above the second best, all in mixed values.

{dips}

![battles won with far targets and with the defaults](collapse.png)
"""


@dataclass(frozen=True)
class Look:
    """What a run's networks think of some episodes."""

    highest: Tensor
    """The targets' mixed value of everybody's best action, of everything seen."""
    taken: Tensor
    """The mixed value of what was done, of every step."""
    followed: Tensor
    """The discounted rewards from there on."""
    gap: Tensor
    """What the second best action is short of the best, of every agent who has a choice, in the mixed value."""
    obs: Tensor
    """What agents saw."""


def played(learner: QMIX, name: str) -> Mapping[str, Any]:
    """Episodes that the agents play without exploration."""
    env = envs.make(name, num_envs=32)
    memory, actor, obs = (
        learner.config.memory(env, lanes=env.num_envs, seed=0),
        learner.actor(32, explore=False),
        env.reset(seed=10_000),
    )
    while len(memory.episodes.length) < EPISODES + 64:
        step = env.step(actor.act(obs)[0])
        memory.append(**step.row)
        actor.reset(step.ended)
        obs = step.obs
    return memory.sample(EPISODES)


def look(learner: QMIX, batch: Mapping[str, Any]) -> Look:
    """Ask networks about episodes."""
    packed, rows = pack_sequences(np.asarray(batch["lengths"])), to_torch(dict(batch))
    before, seen = torch.from_numpy(packed.before), torch.from_numpy(packed.obs)
    agents, mixer = learner.online["agents"], learner.online["mixer"]
    with torch.no_grad():
        own = agents.read(rows, batch, packed)
        there = own.alive(torch.arange(len(seen)))
        targets, values = learner.target["agents"](own), agents(own)
        best = targets.gather(2, greedy(targets, own.action_mask)[..., None])[..., 0] * there
        highest = learner.target["mixer"](best, rows, seen)
    chosen = (values.take(own.chosen) * there[before]).requires_grad_()
    taken = mixer(chosen, rows, seen[before])
    (slope,) = torch.autograd.grad(taken.sum(), chosen)
    allowed = torch.ones_like(values, dtype=torch.bool) if own.action_mask is None else own.action_mask
    two = values.masked_fill(~allowed, -1e9).topk(2).values[before]
    gap = ((two[..., 0] - two[..., 1]) * slope)[allowed.sum(dim=2)[before] > 1]

    grid = (len(packed.batch_sizes) - 1, int(packed.batch_sizes[0]))
    at = (packed.time, packed.column)
    reward, over = np.zeros(grid, np.float32), np.zeros(grid, bool)
    every = batch["reward"][packed.steps]
    reward[at] = every if every.ndim == 1 else every.sum(axis=1)
    over[at] = (batch["terminated"] | batch["truncated"])[packed.steps]
    gamma = learner.config.gamma
    followed = torch.from_numpy(discounted_returns(reward, terminated=over, gamma=gamma)[at])
    return Look(highest, taken.detach(), followed, gap, torch.from_numpy(batch["obs"].take(packed.obs, axis=0)))


def load(folder: Path) -> QMIX:
    """What a run learned."""
    learner = load_run(folder).learner
    assert isinstance(learner, QMIX)
    return learner


def runaway(*, bounded: bool) -> str:
    """Train anew, stop every so often, and look how high values are and where."""
    folder = FOLDER / ("spread_bounded" if bounded else "spread_free")
    shutil.rmtree(folder, ignore_errors=True)
    lines = ["| steps | return | mean value | highest value | how far out | usually |", "|---|---|---|---|---|---|"]
    for steps in STAGES:
        train(folder, QMIXConfig(clip_targets=bounded, **SPREAD), "simple_spread", steps, seed=2)
        seen = look(load(folder), load_memory(folder).sample(EPISODES))
        far = seen.obs[:, :, 2:4].abs().amax(dim=(1, 2))  # agents' positions
        at = int(seen.highest.argmax())
        score = load_run(folder).evaluate(EPISODES, seed=10_000)["return"]
        lines.append(
            f"| {steps:,} | {score:.1f} | {seen.highest.mean():.1f} | {seen.highest[at]:.1f} "
            f"| {far[at]:.1f} | {far.median():.1f} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def dips() -> str:
    """Train with one-step targets that look far ahead, and with the defaults."""
    columns = ("", "largest fall", "lowest", "below .9", "value", "was worth", "too high by", "best above second")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    settings = {"`--gamma 0.99 --td-lambda 0 --lr 0.0005 --no-clip-targets`": FAR_TARGETS, "defaults": {}}
    for name, changes in settings.items():
        folder = FOLDER / ("marines_far" if changes else "marines_defaults")
        train(folder, QMIXConfig(**changes), "marines_4v4", 400_000, seed=1, eval_every=5_000, eval_episodes=200)
        every = np.array([each["battle_won"] for each in read_metrics(folder)])
        won, at = every[-40:], int((every[:-2] - every[2:]).argmax())
        fall = f"{every[at]:.2f} to {every[at + 2]:.2f} at {5_000 * (at + 3):,}"
        seen = look(load(folder), played(load(folder), "marines_4v4"))
        value, worth = float(seen.taken.mean()), float(seen.followed.mean())
        figures = (won.min(), value, worth, value - worth, float(seen.gap.median()))
        lowest, *rest = (f"{each:.2f}" for each in figures)
        lines.append(f"| {' | '.join((name, fall, lowest, str((won < 0.9).sum()), *rest))} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    page = PAGE.format(episodes=EPISODES, free=runaway(bounded=False), bound=runaway(bounded=True), dips=dips())
    if asked.report:
        (asked.report / "collapse.md").write_text(page)
        draw_runs([FOLDER / "marines_far", FOLDER / "marines_defaults"], asked.report / "collapse.png")


if __name__ == "__main__":
    main()
