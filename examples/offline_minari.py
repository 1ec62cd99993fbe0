"""Offline learning from a Minari dataset: conservative Q-learning (Kumar et al. 2020) on what a clumsy policy recorded.

    pip install '.[torch,datasets]' minari gymnasium  # in a clone of relive
    python examples/offline_minari.py                    # records a dataset of its own first
    python examples/offline_minari.py --dataset FOLDER   # a dataset that you have, with discrete actions

Nothing is downloaded. The memory of a dataset is read through any window by any sampler: here 5-step transitions.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import torch
from minari.data_collector import EpisodeBuffer
from torch import nn

import relive as rl

BATCH, GAMMA, TAU, LR, ALPHA = 256, 0.99, 0.005, 1e-3, 1.0


def record(root: Path, episodes: int) -> Path:
    """CartPole by someone who pushes where the pole falls, but half of the time anywhere, as Minari stores it."""
    os.environ["MINARI_DATASETS_PATH"] = str(root)
    env, random, buffers = gym.make("CartPole-v1"), np.random.default_rng(0), []
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        seen, steps, ended = [obs], [], False
        while not ended:
            action = int(random.integers(2) if random.random() < 0.5 else obs[2] + 0.3 * obs[3] > 0)
            obs, reward, terminated, truncated, _ = env.step(action)
            steps.append((action, float(reward), terminated, truncated))
            seen.append(obs)
            ended = terminated or truncated
        actions, rewards, terminations, truncations = map(list, zip(*steps, strict=True))
        buffers.append(EpisodeBuffer(episode, None, None, seen, actions, rewards, terminations, truncations, {}))
    about = dict.fromkeys(("algorithm_name", "author", "author_email", "code_permalink", "description"), "an example")
    minari.create_dataset_from_buffers("cartpole-clumsy-v0", buffers, env=env, eval_env=env, **about)
    return root / "cartpole-clumsy-v0"


@torch.no_grad()
def evaluate(q: nn.Module, episodes: int = 10) -> float:
    """The mean return of the greedy policy."""
    envs = gym.make_vec("CartPole-v1", episodes, vectorization_mode="sync")
    obs, _ = envs.reset(seed=1_000)
    total, going = 0.0, np.ones(episodes, bool)
    while going.any():
        obs, reward, terminated, truncated, _ = envs.step(q(torch.as_tensor(obs)).argmax(dim=1).numpy())
        total += float(reward[going].sum())
        going &= ~(terminated | truncated)
    envs.close()
    return total / episodes


def main() -> None:
    """Record, read, train, evaluate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--episodes", type=int, default=300, help="of the dataset that is recorded")
    parser.add_argument("--updates", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # of networks this small a second thread makes nothing faster

    with tempfile.TemporaryDirectory() as root:
        folder = args.dataset or record(Path(root), args.episodes)
        memory = rl.Memory.from_dataset(folder, window=rl.NStep(5, gamma=GAMMA), seed=args.seed)
    print(memory)
    episodes = len(memory.episodes.length)
    print(f"dataset: {episodes} episodes  return {memory['reward'].sum() / episodes:.1f}", flush=True)

    inputs, actions = memory.schema["obs"].shape[0], int(memory["action"].max()) + 1
    q = nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, actions))
    target = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.Adam(q.parameters(), lr=LR)
    for update in range(1, args.updates + 1):
        batch = rl.to_torch(memory.sample(BATCH))
        values = q(batch.obs)
        chosen_q = values.gather(1, batch.action[:, None])[:, 0]
        with torch.no_grad():
            best = q(batch.next_obs).argmax(dim=1, keepdim=True)
            next_q = target(batch.next_obs).gather(1, best)[:, 0]
            td_target = batch.reward + batch.discount * next_q
        conservative = (values.logsumexp(dim=1) - chosen_q).mean()  # Q of actions that nobody took is pushed down
        loss = nn.functional.smooth_l1_loss(chosen_q, td_target) + ALPHA * conservative
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
                slow.lerp_(fast, TAU)
        if update % max(args.updates // 5, 1) == 0:
            print(f"{update:,} updates  return {evaluate(q):.1f}", flush=True)


if __name__ == "__main__":
    main()
