"""Actors in processes of their own: each writes its lane of a shared memory, without locks, and the learner reads.

    pip install '.[torch]' gymnasium  # in a clone of relive
    python examples/actors.py

DQN on CartPole. Weights go the other way, in tensors that all processes share. Linux only.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.multiprocessing  # tensors in shared memory can be sent to processes from here on
from torch import nn

import relive as rl

BATCH, STARTS, EVERY, AHEAD = 64, 500, 2, 500
GAMMA, TAU, LR = 0.99, 0.01, 1e-3


def make_q() -> nn.Sequential:
    """Q of CartPole's two actions."""
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


def act(name: str, lane: int, actors: int, published: nn.Module, updates: Any, stop: Any) -> None:
    """What an actor does: step, append to its lane; wait where it is too far ahead of the learner."""
    torch.set_num_threads(1)
    random = np.random.default_rng(lane)
    env = gym.make("CartPole-v1")
    obs, _ = env.reset(seed=lane)
    with rl.Writer(name, lanes=lane, timeout=60) as writer:
        step = 0
        while not stop.is_set():
            if step * actors > STARTS + AHEAD + updates.value * EVERY:
                time.sleep(0.001)
                continue
            step += 1
            epsilon = max(0.05, 1 - step * actors / 10_000)
            with torch.no_grad():
                action = int(published(torch.as_tensor(obs)).argmax())
            action = int(random.integers(2)) if random.random() < epsilon else action
            next_obs, reward, terminated, truncated, _ = env.step(action)
            writer.append(
                obs=obs,
                action=action,
                reward=float(reward),
                terminated=terminated,
                truncated=truncated,
                final_obs=next_obs,
            )
            obs = env.reset()[0] if terminated or truncated else next_obs


def learn(memory: rl.Memory, published: nn.Module, updates: Any, steps: int) -> None:
    """What the learner does: sample what others write, publish its weights after every update."""
    q, target = make_q(), make_q().requires_grad_(False)
    q.load_state_dict(published.state_dict())
    target.load_state_dict(published.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=LR)
    while (written := int(memory.inspect.heads.sum())) < steps:  # rows that there ever were
        if written < STARTS + updates.value * EVERY:
            time.sleep(0.001)  # nothing new to learn from
            continue
        batch = rl.to_torch(memory.sample(BATCH))
        with torch.no_grad():
            best = q(batch.next_obs).argmax(dim=1, keepdim=True)
            td_target = batch.reward + batch.discount * target(batch.next_obs).gather(1, best)[:, 0]
        chosen_q = q(batch.obs).gather(1, batch.action[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(chosen_q, td_target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(q.parameters(), 10.0)
        optimizer.step()
        with torch.no_grad():
            for slow, fast, public in zip(target.parameters(), q.parameters(), published.parameters(), strict=True):
                slow.lerp_(fast, TAU)
                public.copy_(fast)
        updates.value += 1
        if updates.value % 1_000 == 0:
            lengths = memory.episodes.length[-20:]  # a step is rewarded with 1
            print(f"{written:,} rows  {updates.value:,} updates  return {lengths.mean():.1f}", flush=True)


def main() -> None:
    """Start actors, learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--actors", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    processes = multiprocessing.get_context("spawn")
    published, updates, stop = make_q().share_memory(), processes.Value("q", 0), processes.Event()

    storage = rl.Shared(f"actors-example-{time.time_ns()}")
    schema = rl.Schema(obs=rl.Field((4,)), action=rl.Field((), "uint8"))
    with rl.Memory(
        schema,
        capacity=25_000 * args.actors,
        lanes=args.actors,
        window=rl.NStep(3, gamma=GAMMA),
        storage=storage,
        seed=1,
    ) as memory:
        actors = [
            processes.Process(target=act, args=(storage.name, lane, args.actors, published, updates, stop))
            for lane in range(args.actors)
        ]
        for actor in actors:
            actor.start()
        try:
            learn(memory, published, updates, args.steps)
        finally:
            stop.set()
            for actor in actors:
                actor.join()
        print(f"{len(memory):,} steps by {args.actors} actors, {len(memory.episodes.length)} episodes")


if __name__ == "__main__":
    main()
