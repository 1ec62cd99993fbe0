"""DQN in one file, on the memory alone: double Q-learning with prioritised replay of three steps.

pip install 'recollect[torch]' gymnasium
python examples/dqn.py --steps 50000
"""

from __future__ import annotations

import argparse
import copy
from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import recollect as rc
from recollect.tensors import to_torch

ENVS, BATCH, STARTS, EVERY = 4, 64, 1_000, 2
GAMMA, TAU, LR = 0.99, 0.01, 1e-3


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)
    random = np.random.default_rng(asked.seed)

    at_once = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec(asked.env, ENVS, vectorization_mode="sync", vector_kwargs=at_once)
    obs_space, actions = envs.single_observation_space, int(envs.single_action_space.n)
    memory = rc.Memory(
        rc.Schema.from_spaces(obs=obs_space, action=envs.single_action_space),
        capacity=100_000,
        lanes=ENVS,
        window=rc.NStep(3, gamma=GAMMA),
        sampler=rc.Prioritized(alpha=0.6, beta=rc.Linear(0.4, 1.0, steps=asked.steps // EVERY)),
        seed=asked.seed,
    )

    sizes = (obs_space.shape[0], 128, 128)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    q = nn.Sequential(*layers, nn.Linear(sizes[-1], actions))
    target = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.Adam(q.parameters(), lr=LR)

    returns, recent = np.zeros(ENVS), []
    obs, _ = envs.reset(seed=asked.seed)
    for step in range(ENVS, asked.steps + ENVS, ENVS):
        epsilon = max(0.05, 1 - step / 10_000)
        with torch.no_grad():
            action = q(torch.as_tensor(obs)).argmax(dim=1).numpy()
        action = np.where(random.random(ENVS) < epsilon, random.integers(0, actions, ENVS), action)
        next_obs, reward, terminated, truncated, info = envs.step(action)

        row = {"obs": obs, "action": action, "reward": reward, "terminated": terminated, "truncated": truncated}
        ended = terminated | truncated
        if ended.any():  # what was really seen at the end, where the next episode has begun already
            final = next_obs.copy()
            final[ended] = np.stack(info["final_obs"][ended])
            row["final_obs"] = final
        memory.append(**row)
        obs = next_obs

        returns += reward
        recent += returns[ended].tolist()
        returns[ended] = 0

        for _ in range(ENVS // EVERY if step >= STARTS else 0):
            batch = memory.sample(BATCH)
            rows = to_torch(batch)
            with torch.no_grad():
                best = q(rows["next_obs"]).argmax(dim=1, keepdim=True)
                next_q = target(rows["next_obs"]).gather(1, best)[:, 0]
                td_target = rows["reward"] + rows["discount"] * next_q  # the discount is 0 where it terminated
            td_error = td_target - q(rows["obs"]).gather(1, rows["action"][:, None])[:, 0]
            loss = (rows["weights"] * F.huber_loss(td_error, torch.zeros_like(td_error), reduction="none")).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), 10.0)
            optimizer.step()
            memory.update_priorities(batch, td_error.detach())
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
                    slow.lerp_(fast, TAU)
        if step % 5_000 < ENVS:
            print(f"{step:,} steps  return {np.mean(recent[-20:]) if recent else 0:.1f}", flush=True)


if __name__ == "__main__":
    main()
