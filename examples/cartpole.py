"""A prioritised n-step DQN on CartPole, from a memory of a million rows.

    python examples/cartpole.py --folder runs/demo

Fills the memory from eight environments side by side, then learns with it, and saves a picture of the learning curve
and one of what the memory holds.
"""

from __future__ import annotations

import argparse
import copy
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import nn

import recollect as rc

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Config:
    """Settings of the run."""

    lanes: int = 8
    capacity: int = 1_000_000
    steps: int = 320_000
    batch: int = 256
    update_every: int = 1
    learning_rate: float = 5e-4
    gamma: float = 0.99
    n: int = 3
    soft_update: float = 0.005
    explore_from: float = 0.3
    explore_to: float = 0.02
    evaluate_every: int = 8_000
    goal: float = 400.0
    seed: int = 0


class Actors:
    """Environments that write every step into a memory."""

    def __init__(self, memory: rc.Memory, lanes: int, seed: int) -> None:
        self.envs = gym.make_vec("CartPole-v1", num_envs=lanes, vectorization_mode="vector_entry_point")
        self.memory = memory
        self.obs, _ = self.envs.reset(seed=seed)
        self.ended = np.zeros(lanes, bool)

    def step(self, action: Array) -> None:
        """Act once in every environment and remember it."""
        seen, reward, terminated, truncated, _ = self.envs.step(action)
        # After an end Gymnasium spends one step on the reset; that step is not experience.
        live = np.flatnonzero(~self.ended)
        self.memory.append(
            lanes=live,
            obs=self.obs[live],
            action=action[live],
            reward=reward[live],
            terminated=terminated[live],
            truncated=truncated[live],
            final_obs=seen[live],
        )
        self.obs, self.ended = seen, terminated | truncated


class Learner:
    """Double DQN on n-step targets."""

    def __init__(self, config: Config, actions: int) -> None:
        self.config = config
        self.online = nn.Sequential(
            nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, actions)
        )
        self.target = copy.deepcopy(self.online)
        self.optimiser = torch.optim.Adam(self.online.parameters(), config.learning_rate)

    @torch.no_grad()
    def act(self, obs: Array) -> Array:
        """The greedy actions."""
        return np.asarray(self.online(torch.as_tensor(obs, dtype=torch.float32)).argmax(-1))

    def update(self, memory: rc.Memory) -> float:
        """One gradient step; the errors become priorities. Returns the loss."""
        batch = memory.sample(self.config.batch)
        tensors = rc.to_torch(batch)
        with torch.no_grad():
            best = self.online(tensors.next_obs).argmax(-1, keepdim=True)
            value = self.target(tensors.next_obs).gather(1, best).squeeze(1)
            goal = tensors.reward + tensors.discount * value
        taken = self.online(tensors.obs).gather(1, tensors.action.long()[:, None]).squeeze(1)
        error = goal - taken
        loss = (tensors.weights * nn.functional.smooth_l1_loss(taken, goal, reduction="none")).mean()
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.optimiser.step()
        memory.update_priorities(batch, error)
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
                slow.lerp_(fast, self.config.soft_update)
        return float(loss.detach())


def evaluate(learner: Learner, episodes: int = 16, seed: int = 10_000) -> float:
    """Mean return of the greedy policy over an episode in each of some fresh environments."""
    envs = gym.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    obs, _ = envs.reset(seed=seed)
    running, total = np.ones(episodes, bool), np.zeros(episodes)
    while running.any():
        obs, reward, terminated, truncated, _ = envs.step(learner.act(obs))
        total += reward * running
        running &= ~(terminated | truncated)
    envs.close()
    return float(total.mean())


def bar(console: Console) -> Progress:
    """A progress bar with a note, done, time taken and time left."""
    return Progress(
        TextColumn("[bold]{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def draw(folder: Path, curve: list[tuple[int, float]], memory: rc.Memory, goal: float) -> None:
    """Save the learning curve and what the memory holds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(*zip(*curve, strict=True), marker="o", color="#2a6f97")
    axes.axhline(goal, color="#999999", linestyle="--", linewidth=1, label=f"goal {goal:g}")
    axes.set(
        xlabel="environment steps while learning", ylabel="return of the greedy policy", title="DQN on CartPole-v1"
    )
    axes.set_ylim(0, 520)
    axes.legend(loc="lower right")
    figure.savefig(folder / "curve.png", dpi=120)

    episodes = memory.episodes
    ended = episodes.terminated | episodes.truncated
    priorities = memory.priorities
    figure, (lengths, weights, ages) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    lengths.hist(episodes.length[ended], bins=np.arange(0, 511, 10), color="#2a6f97", log=True)
    lengths.set(xlabel="steps", ylabel="episodes", title=f"Lengths of {int(ended.sum()):,} episodes")
    weights.hist(np.log10(priorities[priorities > 0]), bins=60, color="#bc4749", log=True)
    weights.set(xlabel="log10 of priority", ylabel="rows", title=f"Priorities of {memory.ready:,} rows")
    order = np.argsort(episodes.start[ended], kind="stable")
    kept = episodes.length[ended][order]
    window = max(1, len(kept) // 200)
    smooth = np.convolve(kept, np.ones(window) / window, mode="valid")
    ages.plot(np.linspace(0, 1, len(smooth)), smooth, color="#2a6f97")
    ages.set(xlabel="oldest to newest", ylabel="steps", title="Episode length by age")
    figure.suptitle(f"{len(memory):,} steps, {memory.nbytes / 2**20:.0f} MiB, {memory.lanes} lanes")
    figure.savefig(folder / "memory.png", dpi=120)


def main() -> None:
    """Fill, learn, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/cartpole"), help="where the pictures go")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    config, console = Config(), Console()
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)
    random = np.random.default_rng(config.seed)

    probe = gym.make("CartPole-v1")
    schema = rc.Schema.from_spaces(obs=probe.observation_space, action=probe.action_space)
    memory = rc.Memory(
        schema,
        config.capacity,
        config.lanes,
        sampler=rc.Prioritized(
            alpha=0.6, beta=rc.Linear(0.4, 1.0, config.steps // config.update_every // config.lanes)
        ),
        window=rc.NStep(config.n, config.gamma),
        seed=config.seed,
    )
    actors = Actors(memory, config.lanes, config.seed)
    started = time.perf_counter()
    with bar(console) as progress:
        task = progress.add_task("filling", total=config.capacity, note="with a random policy")
        while not memory.full:
            for _ in range(500):
                actors.step(random.integers(0, 2, config.lanes))
            progress.update(task, completed=min(config.capacity, len(memory) + len(memory.episodes.lane)))
    console.print(memory)

    learner = Learner(config, int(probe.action_space.n))
    curve = [(0, evaluate(learner))]
    with bar(console) as progress:
        task = progress.add_task("learning", total=config.steps, note="")
        for step in range(config.lanes, config.steps + 1, config.lanes):
            done = step / config.steps
            explore = max(config.explore_to, config.explore_from * (1 - 2 * done))
            greedy = learner.act(actors.obs)
            wander = random.random(config.lanes) < explore
            actors.step(np.where(wander, random.integers(0, 2, config.lanes), greedy))
            if step // config.lanes % config.update_every == 0:
                learner.update(memory)
            if step % config.evaluate_every == 0:
                curve.append((step, evaluate(learner)))
                progress.update(task, note=f"return {curve[-1][1]:.0f}")
                if curve[-1][1] >= 495:
                    progress.update(task, completed=step)
                    break
            progress.update(task, completed=step)
    draw(folder, curve, memory, config.goal)
    best = max(score for _, score in curve)
    console.print(
        f"Return {curve[-1][1]:.0f} (best {best:.0f}) after {curve[-1][0]:,} steps and "
        f"{time.perf_counter() - started:.0f} s; {memory.dropped:,} late priorities dropped.\n"
        f"Pictures: {folder / 'curve.png'}, {folder / 'memory.png'}"
    )
    if curve[-1][1] < config.goal:
        raise SystemExit(f"the return must be at least {config.goal:g}, got {curve[-1][1]:.0f}")


if __name__ == "__main__":
    main()
